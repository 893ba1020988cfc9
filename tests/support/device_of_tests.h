// On which device tests run commands.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace terngrad::testing {

/// `arguments` of a command, behind --device with what TERNGRAD_TEST_DEVICE says, or the CPU: tests of commands mean
/// the same on machines with and without a GPU. Arguments that say it themselves are left alone.
inline std::vector<std::string> on_device_of_tests(std::vector<std::string> arguments) {
  if (std::ranges::find(arguments, "--device") != arguments.end()) return arguments;
  const char* device = std::getenv("TERNGRAD_TEST_DEVICE");
  arguments.insert(arguments.begin(), {"--device", device != nullptr ? device : "cpu"});
  return arguments;
}

}  // namespace terngrad::testing
