// simt_defects NAME: runs one kernel of this folder. simt_defects --list DEFECTS|CONTROLS: prints their names.
#include <cstdio>
#include <string_view>
#include <vector>

#include "defects/defect.h"

namespace terngrad::testing {
namespace {

std::vector<Defect> all_defects() {
  std::vector<Defect> all;
  for (const auto& part : {bounds_defects(), value_defects(), meeting_defects(), race_defects()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

int run(std::string_view name) {
  std::vector<Defect> all = all_defects();
  all.insert(all.end(), controls().begin(), controls().end());
  for (const Defect& defect : all) {
    if (defect.name != name) continue;
    Stream stream(Device::cuda());
    defect.run(stream);
    return 0;
  }
  std::fprintf(stderr, "simt_defects: no kernel is called %.*s\n", static_cast<int>(name.size()), name.data());
  return 2;
}

}  // namespace
}  // namespace terngrad::testing

int main(int argc, char** argv) {
  using namespace terngrad::testing;
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1) return run(arguments[0]);
  if (arguments.size() == 2 && arguments[0] == "--list") {
    const std::vector<Defect> defects = all_defects();
    for (const Defect& defect : arguments[1] == "CONTROLS" ? controls() : std::span<const Defect>(defects)) {
      std::puts(defect.name);
    }
    return 0;
  }
  std::fputs("usage: simt_defects NAME | --list DEFECTS | --list CONTROLS\n", stderr);
  return 2;
}
