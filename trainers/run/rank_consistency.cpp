#include "trainers/run/rank_consistency.h"

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/version.h"
#include "nets/net.h"
#include "trainers/launch/group_error.h"

namespace terngrad {
namespace {

using Values = std::map<std::string, std::string>;

Values values_of(const std::vector<OptionValue>& options, const RecordedIdentity& identity) {
  Values values;
  // The parenthesis sorts it first, so it is compared first.
  values["(program)"] = std::string("terngrad ") + version() + " (" + commit() + "), " + cpu_library();
  for (const auto& [name, value] : identity) values[name] = value;
  for (const OptionValue& option : options) {
    if (!option.same_on_all_ranks) continue;
    values["--" + option.name] =
        std::visit([](const auto& value) { return nlohmann::json(value).dump(); }, option.value);
  }
  return values;
}

std::string text_of(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "nothing" : found->second;
}

}  // namespace

void require_same_on_all_ranks(const ProcessGroup& processes, const std::vector<OptionValue>& options,
                               const RecordedIdentity& identity) {
  const Values own = values_of(options, identity);
  const Values chief = nlohmann::json::parse(processes.broadcast_string(nlohmann::json(own).dump())).get<Values>();
  processes.run_collective([&] {
    Values names = chief;
    names.insert(own.begin(), own.end());
    for (const auto& [name, value] : names) {
      const std::string here = text_of(own, name);
      const std::string there = text_of(chief, name);
      if (here == there) continue;
      const char* const what = name == "data_fingerprint" ? "other training data (--data_dir): " : "";
      TERNGRAD_THROW(UsageError, what, name, " is ", here, " here and ", there, " for ", processes.name_of(0),
                     "; all ranks of a run must have the same");
    }
  });
}

}  // namespace terngrad
