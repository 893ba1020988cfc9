// OptionDeclaration: properties of an option besides name, help and values: its role, its needs, and how it enters the
// identity of a run.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace terngrad {

/// The effect of an option on a run. The role decides whether a resumed run must have the same value (the identity,
/// RunIdentity), whether all ranks must have the same value, and whether plots distinguish runs by the value:
///
///   role      in the identity  same on all ranks  compared by plots
///   kResult   yes              yes                yes
///   kStart    no               yes                yes
///   kSpeed    no               yes                yes
///   kReport   no               yes                no
///   kPlace    no               no                 no
enum class OptionRole {
  kResult,  // the bits of the steps; the default role
  kStart,   // the initial state, which a resumed run takes from its checkpoint
  kSpeed,   // speed of steps, their processors and messages, but not their bits
  kReport,  // output, logging and monitoring, and when a run stops
  kPlace,   // paths and devices of this process
};

/// How an option enters the identity of a run, if not simply by its value under its name. The functions read the
/// variables that the options are declared over; comments give the behaviour of empty ones.
struct OptionIdentity {
  std::string key = {};                                    // in checkpoints and config.json; empty: the option's name
  std::string name = {};                                   // in messages; empty: "--" and the option's name
  std::function<std::optional<std::string>()> value = {};  // nullopt: such runs have no entry; empty: the option's text
  bool is_compared_last = false;                           // after entries whose errors are clearer
  std::function<bool(const std::string& ours, const std::string& recorded)> is_same = {};  // see IdentityEntry::is_same
  std::function<std::string(const std::string& value)> shown = {};  // formats a value for messages; empty: unchanged
  std::function<std::string(const std::string& recorded)> advice =
      {};  // options to give to continue the run; empty: no advice
};

/// Identity of an option that influences bits only through the entry `key`, which another option declares.
inline OptionIdentity part_of(std::string key) {
  return {.key = std::move(key), .value = [] { return std::optional<std::string>(); }};
}

/// A condition without which an option has no effect or is impossible.
struct OptionNeed {
  std::string what;             // completes "needs ...": "--strategy async"
  std::function<bool()> holds;  // true if the condition is met, or the option's value does not need it
  /// Detail of the current situation for the message: "synthetic is built in". Empty: none
  std::function<std::string()> detail = {};
};

class OptionSet;

/// Handle to a declared option, to set more of its properties:
///
///   options.add("momentum", &o.momentum, "of the optimizers momentum and rmsprop", from_up_to(0, 1))
///       .needs("--optimizer momentum or rmsprop", [&o] { return has_momentum(o.optimizer); })
///       .original("same");
class OptionDeclaration {
 public:
  OptionDeclaration(OptionSet& options, std::size_t index) : options_(&options), index_(index) {}
  /// Sets the role; the default is kResult. @throws InvalidArgument for another role after identity()
  OptionDeclaration& role(OptionRole role);
  /// Plots treat runs with different values as the same, whatever the role: for the seed.
  OptionDeclaration& not_compared();
  /// Adds an entry to a run's identity, in place of the option's value under its name. May be called repeatedly.
  /// @throws InvalidArgument unless the role is kResult
  OptionDeclaration& identity(OptionIdentity identity);
  /// Refuses values other than the default if `holds` returns false. Of several unmet needs the first is reported.
  OptionDeclaration& needs(std::string what, std::function<bool()> holds, std::function<std::string()> detail = {});
  OptionDeclaration& needs(OptionNeed need);
  /// Adds another name of the option.
  OptionDeclaration& alias(std::string alias);
  /// Marks an option that the public TensorFlow implementation of TernGrad has too. @param note  for docs/options.md:
  /// "same", or the difference. @param name  its name there; empty: the same name
  OptionDeclaration& original(std::string note, std::string name = {});

 private:
  OptionSet* options_;
  std::size_t index_;
};

}  // namespace terngrad
