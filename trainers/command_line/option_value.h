// OptionValue: an option after parsing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace terngrad {

/// The value of an option, by type.
using OptionScalar = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>>;

/// An option after parsing.
struct OptionValue {
  std::string name;
  OptionScalar value;
  bool set_by_user = false;       // true if given on the command line or in a --config file
  bool same_on_all_ranks = true;  // true if all ranks must have the same value
};

}  // namespace terngrad
