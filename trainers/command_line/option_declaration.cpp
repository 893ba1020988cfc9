#include "trainers/command_line/option_declaration.h"

#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_set.h"

namespace terngrad {

OptionDeclaration& OptionDeclaration::role(OptionRole role) {
  OptionSet::Option& option = options_->options_[index_];
  TERNGRAD_REQUIRE(option.identity.empty() || role == OptionRole::kResult, "[OptionSet] '", option.name,
                   "' is part of the identity");
  option.role = role;
  return *this;
}

OptionDeclaration& OptionDeclaration::not_compared() {
  options_->options_[index_].is_compared = false;
  return *this;
}

OptionDeclaration& OptionDeclaration::identity(OptionIdentity identity) {
  OptionSet::Option& option = options_->options_[index_];
  TERNGRAD_REQUIRE(option.role == OptionRole::kResult, "[OptionSet] '", option.name, "' decides no bits");
  option.identity.push_back(std::move(identity));
  return *this;
}

OptionDeclaration& OptionDeclaration::needs(OptionNeed need) {
  options_->options_[index_].needs.push_back(std::move(need));
  return *this;
}

OptionDeclaration& OptionDeclaration::needs(std::string what, std::function<bool()> holds,
                                            std::function<std::string()> detail) {
  return needs({std::move(what), std::move(holds), std::move(detail)});
}

OptionDeclaration& OptionDeclaration::alias(std::string alias) {
  options_->alias(std::move(alias), options_->options_[index_].name);
  return *this;
}

OptionDeclaration& OptionDeclaration::original(std::string note, std::string name) {
  options_->options_[index_].original = std::move(note);
  options_->options_[index_].original_name = std::move(name);
  return *this;
}

}  // namespace terngrad
