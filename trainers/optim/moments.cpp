#include "trainers/optim/moments.h"

#include <charconv>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/filled.h"

namespace terngrad {

MomentsOptimizer::MomentsOptimizer(std::string name, std::int64_t flat_elements, const Device& device)
    : name_(std::move(name)),
      first_moment_(make_filled(flat_elements, 0, device)),
      second_moment_(make_filled(flat_elements, 0, device)) {}

std::map<std::string, std::string> MomentsOptimizer::state() const {
  return {{name_ + "_updates", std::to_string(num_updates_)}};
}

void MomentsOptimizer::restore_state(const std::map<std::string, std::string>& entries) {
  num_updates_ = count_of(entries, name_ + "_updates");
}

std::uint64_t MomentsOptimizer::count_of(const std::map<std::string, std::string>& entries,
                                         const std::string& key) const {
  const auto entry = entries.find(key);
  if (entry == entries.end()) TERNGRAD_THROW(DataError, "[", name_, "] the saved state has no ", key);
  const std::string& text = entry->second;
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size()) {
    TERNGRAD_THROW(DataError, "[", name_, "] the saved state has ", key, " '", text, "', which is no count");
  }
  return count;
}

}  // namespace terngrad
