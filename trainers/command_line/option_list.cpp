#include "trainers/command_line/option_list.h"

#include <nlohmann/json.hpp>

#include "trainers/command_line/option_set.h"

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const OptionDescription& option) {
  return {{"name", option.name},
          {"aliases", option.aliases},
          {"group", option.group},
          {"help", option.help},
          {"type", option.type},
          {"accepted", option.accepted},
          {"value_name", option.value_name},
          {"default", option.default_text},
          {"role", to_string(option.role)},
          {"identity", option.entries},
          {"same_on_all_ranks", option.role != OptionRole::kPlace},
          {"compared", option.is_compared},
          {"needs", option.needs},
          {"original", option.original},
          {"original_name", option.original_name}};
}

}  // namespace

std::string_view to_string(OptionRole role) {
  switch (role) {
    case OptionRole::kResult:
      return "result";
    case OptionRole::kStart:
      return "start";
    case OptionRole::kSpeed:
      return "speed";
    case OptionRole::kReport:
      return "report";
    case OptionRole::kPlace:
      break;
  }
  return "place";
}

std::string option_list_json(const OptionSet& options) {
  Json list = {{"options", Json::array()}, {"refused", Json::array()}};
  for (const OptionDescription& option : options.descriptions()) list["options"].push_back(to_json(option));
  for (const auto& [name, reason] : options.refused()) {
    list["refused"].push_back({{"name", name}, {"reason", reason}});
  }
  return list.dump(1) + "\n";
}

}  // namespace terngrad
