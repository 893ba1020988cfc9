#include "kernels/tensor/layout.h"

#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Largest total number of elements: 2^48 Philox blocks of four 32-bit draws (refinements); far below overflow.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int Layout::add(std::string name, std::vector<std::int64_t> shape, bool is_logits) {
  TERNGRAD_REQUIRE(!name.empty(), "[Layout] a tensor needs a name");
  TERNGRAD_REQUIRE(find(name) < 0, "[Layout] two tensors are called '", name, "'");
  Segment segment;
  segment.num_elements = 1;
  for (const std::int64_t dimension : shape) {
    TERNGRAD_REQUIRE(dimension >= 0, "[Layout] tensor '", name, "' has a negative dimension ", dimension);
    TERNGRAD_REQUIRE(dimension == 0 || segment.num_elements <= kMaxElements / dimension, "[Layout] tensor '", name,
                     "' has more than ", kMaxElements, " elements");
    segment.num_elements *= dimension;
  }
  TERNGRAD_REQUIRE(num_draws_ <= kMaxElements - segment.num_elements, "[Layout] with tensor '", name,
                   "' there are more than ", kMaxElements, " elements");
  segment.name = std::move(name);
  segment.shape = std::move(shape);
  segment.is_logits = is_logits;
  segment.offset = flat_elements_;
  segment.draw_offset = num_draws_;
  num_elements_ += segment.num_elements;
  flat_elements_ += round_up(segment.num_elements, kFlatAlignment);
  num_draws_ += round_up(segment.num_elements, kDrawAlignment);
  segments_.push_back(std::move(segment));
  return num_segments() - 1;
}

int Layout::find(const std::string& name) const {
  for (int index = 0; index < num_segments(); ++index) {
    if (segment(index).name == name) return index;
  }
  return -1;
}

Layout Layout::select(std::span<const int> segments) const {
  Layout selection;
  selection.flat_elements_ = flat_elements_;
  selection.num_draws_ = num_draws_;
  selection.is_selection_ = true;
  for (const int index : segments) {
    TERNGRAD_REQUIRE(index >= 0 && index < num_segments(), "[Layout] there is no tensor ", index, " to select of ",
                     num_segments());
    TERNGRAD_REQUIRE(selection.find(segment(index).name) < 0, "[Layout] tensor '", segment(index).name,
                     "' is selected twice");
    selection.segments_.push_back(segment(index));
    selection.num_elements_ += segment(index).num_elements;
  }
  return selection;
}

Layout Layout::reshaped(std::span<const std::vector<std::int64_t>> shapes) const {
  TERNGRAD_REQUIRE(shapes.size() == segments_.size(), "[Layout] ", shapes.size(), " shapes for ", segments_.size(),
                   " tensors");
  Layout result = *this;
  result.is_selection_ = true;
  result.num_elements_ = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Segment& segment = result.segments_[i];
    std::int64_t count = 1;
    for (const std::int64_t dimension : shapes[i]) {
      // The product stays at most num_elements, so it cannot overflow.
      TERNGRAD_REQUIRE(dimension >= 0 && (count == 0 || dimension <= segment.num_elements / count), "[Layout] tensor '",
                       segment.name, "' has ", segment.num_elements, " elements, which the new shape exceeds");
      count *= dimension;
    }
    segment.shape = shapes[i];
    segment.num_elements = count;
    result.num_elements_ += count;
  }
  return result;
}

std::uint64_t Layout::fingerprint() const {
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(num_segments()));
  for (const Segment& segment : segments_) {
    hash.add(static_cast<std::uint64_t>(segment.name.size())).add(segment.name);
    hash.add(static_cast<std::uint64_t>(segment.shape.size()));
    for (const std::int64_t dimension : segment.shape) hash.add(static_cast<std::uint64_t>(dimension));
    hash.add(segment.is_logits ? 1u : 0u);
    if (is_selection_) hash.add(static_cast<std::uint64_t>(segment.draw_offset));
  }
  return hash.value();
}

Fingerprint& Fingerprint::add(std::string_view text) {
  for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return *this;
}

Fingerprint& Fingerprint::add(std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) value_ = (value_ ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3ull;
  return *this;
}

}  // namespace terngrad
