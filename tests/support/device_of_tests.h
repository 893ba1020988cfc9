// Device on which tests run commands.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace terngrad::testing {

/// Prepends --device with TERNGRAD_TEST_DEVICE, by default cpu, unless `arguments` contain --device: tests of commands
/// behave alike on machines with and without a GPU.
inline std::vector<std::string> on_device_of_tests(std::vector<std::string> arguments) {
  if (std::ranges::find(arguments, "--device") != arguments.end()) return arguments;
  const char* device = std::getenv("TERNGRAD_TEST_DEVICE");
  arguments.insert(arguments.begin(), {"--device", device != nullptr ? device : "cpu"});
  return arguments;
}

}  // namespace terngrad::testing
