// OptionDeclaration: what an option says of itself beside name, help and values: whom it concerns, what it needs, how
// it enters the identity of a run.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace terngrad {

/// What depends on an option. It says three things: whether two starts must agree in it to be one run (the identity of
/// RunIdentity), whether all ranks must have the same value, and whether plots take runs with other values for other
/// runs.
///
///   role      in the identity  same on all ranks  compared by plots
///   kResult   yes              yes                yes
///   kStart    no               yes                yes
///   kSpeed    no               yes                yes
///   kReport   no               yes                no
///   kPlace    no               no                 no
enum class OptionRole {
  kResult,  // the bits of the steps; every option, unless it says otherwise
  kStart,   // what a new run begins with, which a resumed one has in its checkpoint
  kSpeed,   // how long steps take, and over which processors and messages, not their bits
  kReport,  // what is written, printed and watched, and when a run stops
  kPlace,   // where this process reads, writes and computes
};

/// How an option enters the identity of a run, where it is more than its value under its name. Functions read the
/// variables that the options are declared over; those left empty are replaced by what the comment says.
struct OptionIdentity {
  std::string key = {};                                    // in checkpoints and config.json; empty: the option's name
  std::string name = {};                                   // for messages; empty: "--" and the option's name
  std::function<std::optional<std::string>()> value = {};  // nullopt: runs of this kind have no entry; empty: its text
  bool is_compared_last = false;                           // since another entry says the same and has a better name for it
  std::function<bool(const std::string& ours, const std::string& recorded)> is_same = {};  // beside equal texts
  std::function<std::string(const std::string& value)> shown = {};  // as messages show a value; empty: as it is
  std::function<std::string(const std::string& recorded)> advice =
      {};  // what to give to continue a run; empty: nothing
};

/// Of an option that decides bits by another entry, which has what all options of that entry come to.
inline OptionIdentity part_of(std::string key) {
  return {.key = std::move(key), .value = [] { return std::optional<std::string>(); }};
}

/// Something without which an option has no effect, or cannot be had.
struct OptionNeed {
  std::string what;             // "--strategy async"; completes "needs ..."
  std::function<bool()> holds;  // whether it is there, or the option's value does without
  /// More about it as things are, in a message: "synthetic is built in". Empty: nothing
  std::function<std::string()> detail = {};
};

class OptionSet;

/// An option that was just declared, to say more of it:
///
///   options.add("momentum", &o.momentum, "of the optimizers momentum and rmsprop", from_up_to(0, 1))
///       .needs("--optimizer momentum or rmsprop", [&o] { return has_momentum(o.optimizer); })
///       .original("same");
class OptionDeclaration {
 public:
  OptionDeclaration(OptionSet& options, std::size_t index) : options_(&options), index_(index) {}
  /// What depends on it; kResult unless told. @throws InvalidArgument for another one after identity()
  OptionDeclaration& role(OptionRole role);
  /// Plots take runs with other values for the same, whatever the role says: for the seed.
  OptionDeclaration& not_compared();
  /// Adds an entry to a run's identity in place of the option's value under its name; of several calls all count.
  /// @throws InvalidArgument unless the role is kResult
  OptionDeclaration& identity(OptionIdentity identity);
  /// Refuses another value than the default where `holds` says no; of several needs the first that does counts.
  OptionDeclaration& needs(std::string what, std::function<bool()> holds, std::function<std::string()> detail = {});
  OptionDeclaration& needs(OptionNeed need);
  /// Another name of the option.
  OptionDeclaration& alias(std::string alias);
  /// The public TensorFlow implementation of TernGrad has the option. @param note  for docs/options.md:
  /// "same", or what is different. @param name  of it there; empty: the same
  OptionDeclaration& original(std::string note, std::string name = {});

 private:
  OptionSet* options_;
  std::size_t index_;
};

}  // namespace terngrad
