#include "trainers/io/metrics_events.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

std::string tag_of(const std::string& section, const std::string& name) {
  std::string tag = section;
  tag += '/';
  tag += name;
  return tag;
}

void add_numbers(const std::string& tag, const Json& value, std::vector<NamedScalar>& scalars) {
  if (value.is_number()) scalars.push_back({tag, value.get<double>()});
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) add_numbers(tag_of(tag, key), member, scalars);
}

}  // namespace

std::vector<NamedScalar> scalars_of(const Json& record) {
  std::vector<NamedScalar> scalars;
  const auto kind = record.at("kind").get<std::string>();
  if (kind == "tensors") {
    for (const auto& [tensor, quantities] : record.at("tensors").items()) {
      for (const auto& [quantity, value] : quantities.items()) add_numbers(tag_of(quantity, tensor), value, scalars);
    }
    return scalars;
  }
  for (const auto& [key, value] : record.items()) {
    // No scalar per staleness, of which there may be any number: the mean staleness is written.
    if (key != "step" && key != "staleness") add_numbers(tag_of(kind, key), value, scalars);
  }
  return scalars;
}

void follow_metrics(MetricsWriter& metrics, EventFile& events) {
  metrics.set_follower([&events](const Json& record) {
    events.write_scalars(record.at("step").get<std::uint64_t>(), scalars_of(record));
  });
}

}  // namespace terngrad
