// OptionValue: an option as it stands after parsing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace terngrad {

/// The value of an option, by type.
using OptionScalar = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>>;

/// An option as it stands after parsing.
struct OptionValue {
  std::string name;
  OptionScalar value;
  bool set_by_user = false;       // on the command line or in a --config file
  bool same_on_all_ranks = true;  // must be
};

}  // namespace terngrad
