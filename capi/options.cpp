#include "capi/options.h"

#include <algorithm>
#include <sstream>

#include "kernels/runtime/read_number.h"

namespace terngrad::capi {

Options::Options(const char* text) {
  std::istringstream stream(text == nullptr ? "" : text);
  for (std::string word; stream >> word;) {
    const std::size_t sign = word.find('=');
    TERNGRAD_REQUIRE(sign != std::string::npos && sign > 0 && sign + 1 < word.size(), "option '", word,
                     "' is not KEY=VALUE");
    words_.push_back({word.substr(0, sign), word.substr(sign + 1)});
  }
}

std::vector<std::string> Options::all(const char* key) {
  keys_.emplace_back(key);
  std::vector<std::string> values;
  for (Word& word : words_) {
    if (word.key != key) continue;
    word.is_taken = true;
    values.push_back(word.value);
  }
  return values;
}

std::string Options::text(const char* key, const std::string& value) {
  const std::vector<std::string> values = all(key);
  TERNGRAD_REQUIRE(values.size() <= 1, "option ", key, " is given ", values.size(), " times");
  return values.empty() ? value : values[0];
}

std::uint64_t Options::number(const char* key, std::uint64_t value) {
  const std::string word = text(key, std::to_string(value));
  const ReadNumber<std::uint64_t> read = read_number<std::uint64_t>(word);
  TERNGRAD_REQUIRE(read.number.has_value(), "option ", key, "=", word, " is refused",
                   read.problem.empty() ? "" : ", it is " + read.problem, "; accepted: an integer of at least 0");
  return *read.number;
}

bool Options::flag(const char* key, bool value) {
  const std::string word = text(key, value ? "true" : "false");
  TERNGRAD_REQUIRE(word == "true" || word == "false", "option ", key, "=", word, " is refused; accepted: false, true");
  return word == "true";
}

std::vector<std::pair<std::string, std::string>> Options::rest(const std::vector<std::string>& keys) {
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  std::vector<std::pair<std::string, std::string>> found;
  for (const Word& word : words_) {
    if (word.is_taken) continue;
    if (std::ranges::find(keys, word.key) == keys.end()) {
      std::string accepted;
      for (const std::string& key : keys_) accepted += (accepted.empty() ? "" : ", ") + key;
      TERNGRAD_THROW(InvalidArgument, "option ", word.key, " is unknown; accepted: ", accepted);
    }
    TERNGRAD_REQUIRE(std::ranges::none_of(found, [&](const auto& other) { return other.first == word.key; }), "option ",
                     word.key, " is given twice");
    found.emplace_back(word.key, word.value);
  }
  return found;
}

}  // namespace terngrad::capi
