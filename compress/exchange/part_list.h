// PartList: the parts (sets of tensors) that are exchanged in a step, if they are not known beforehand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Parts of a layout, each with an exchange of class Exchange, which is created at first use. A part is kept as long as
/// every step uses it.
template <class Exchange>
class PartList {
 public:
  /// A set of tensors and its exchange.
  struct Part {
    std::vector<int> segments;
    Layout layout;
    std::unique_ptr<Exchange> exchange = nullptr;
    bool is_used = false;                   // in the current step
    std::vector<TensorTable> encoded = {};  // compensated gradients of the current step, if workers have a memory
  };
  /// The part in which a tensor was exchanged in this step.
  struct Place {
    Part* part = nullptr;
    int segment = 0;  // in the part's layout
  };

  PartList(const Layout& layout, CodecPlan plan)
      : layout_(layout), plan_(std::move(plan)), places_(static_cast<std::size_t>(layout.num_segments())) {}

  const Layout& layout() const { return layout_; }
  const CodecPlan& plan() const { return plan_; }

  /// Finds or creates the part with these tensors.
  /// @throws InvalidArgument for an empty list, an unknown or repeated tensor, or only some of the tensors of a codec
  /// that needs all of its tensors at once (CodecTraits::per_tensor)
  Part& of(std::span<const int> segments) {
    std::vector<int> key(segments.begin(), segments.end());
    const auto found = parts_.find(key);
    if (found != parts_.end()) return found->second;
    TERNGRAD_REQUIRE(!segments.empty(), "[parts] a part without tensors");
    Layout selection = layout_.select(segments);
    for (const CodecPlan::Group& group : plan_.groups()) {
      TERNGRAD_REQUIRE(group.codec->traits().per_tensor || selection.num_segments() == layout_.num_segments(),
                       "[parts] the codec ", group.codec->name(),
                       " needs all of its tensors at once (scaler_scope model), this part has ",
                       selection.num_segments(), " of ", layout_.num_segments());
    }
    Part part{.segments = key, .layout = std::move(selection)};
    return parts_.emplace(std::move(key), std::move(part)).first->second;
  }

  /// Begins a step, in which no part was exchanged yet.
  void begin(std::uint64_t step) {
    TERNGRAD_REQUIRE(step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step);
    step_ = step;
    for (auto& [segments, part] : parts_) part.is_used = false;
    places_.assign(places_.size(), {});
  }
  std::uint64_t step() const { return step_; }

  /// @throws InvalidArgument for a tensor that was already exchanged in this step
  void require_new(std::span<const int> segments) const {
    for (const int segment : segments) {
      TERNGRAD_REQUIRE(places_[static_cast<std::size_t>(segment)].part == nullptr, "[parts] tensor '",
                       layout_.segment(segment).name, "' was exchanged before in step ", step_);
    }
  }
  /// Records that a part was exchanged in this step.
  void add(Part& part) {
    part.is_used = true;
    for (std::size_t i = 0; i < part.segments.size(); ++i) {
      places_[static_cast<std::size_t>(part.segments[i])] = {&part, static_cast<int>(i)};
    }
  }
  /// Ends the step: removes the parts that it did not use, and calls body(part) for the others.
  template <class Body>
  void finish(const Body& body) {
    std::erase_if(parts_, [](const auto& entry) { return !entry.second.is_used; });
    for (auto& [segments, part] : parts_) body(part);
  }
  /// The part is null if the step did not exchange the tensor. @throws InvalidArgument for an unknown tensor
  const Place& place_of(int segment) const {
    TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
    return places_[static_cast<std::size_t>(segment)];
  }

 private:
  Layout layout_;
  CodecPlan plan_;
  std::map<std::vector<int>, Part> parts_;
  std::vector<Place> places_;  // one per tensor, in the current step
  std::uint64_t step_ = 0;
};

}  // namespace terngrad
