// One worker's messages of an exchange, with the codecs of a plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/scaler_messages.h"
#include "support/coder_scalers.h"

namespace terngrad::testing {

class WorkerMessages {
 public:
  /// @param layout, plan  kept by reference
  WorkerMessages(const Layout& layout, const CodecPlan& plan, int worker, std::uint64_t seed)
      : layout_(layout), plan_(plan), worker_(worker), seed_(seed) {}

  int worker() const { return worker_; }

  /// Measures the gradient of the next messages.
  void measure(const TensorTable& gradient, const MessageContext& context, Stream& stream) {
    gradient_ = gradient;
    Encoding whole(*this, whole_segments(layout_), PayloadForm::kNatural);
    whole.measure(context.step, stream);
    local_.assign(static_cast<std::size_t>(plan_.num_scalers()), 0.0f);
    for (const auto& coder : whole.coders) {
      for (const int segment : coder->segments()) {
        const std::span<const float> row = row_of(*coder, segment, coder->local_row(worker_));
        std::ranges::copy(row, local_.begin() + plan_.first_scaler(segment));
      }
    }
    scalers_.clear();
    append_scalers(layout_, plan_, whole.coders, worker_, context, scalers_);
  }
  /// Local scalers of all tensors in order of the layout.
  const std::vector<float>& local_scalers() const { return local_; }
  std::span<const std::uint8_t> scalers_message() const { return scalers_.parcel(0); }

  /// Message of some slices, valid until the next call.
  /// @param shared  scalers of all tensors in order of the layout, used by codecs that share scalers; empty: the
  /// worker's own
  std::span<const std::uint8_t> gradient_message(const std::vector<Slice>& slices, std::span<const float> shared,
                                                 const MessageContext& context, Stream& stream,
                                                 PayloadForm form = PayloadForm::kNatural) {
    Encoding part(*this, slices, form);
    part.measure(context.step, stream);
    for (const auto& coder : part.coders) {
      std::vector<float> of_coder;
      for (const int segment : coder->segments()) {
        if (shared.empty()) break;
        const auto first = static_cast<std::size_t>(plan_.first_scaler(segment));
        const auto of_segment =
            shared.subspan(first, static_cast<std::size_t>(plan_.first_scaler(segment + 1)) - first);
        of_coder.insert(of_coder.end(), of_segment.begin(), of_segment.end());
      }
      combine_with(*coder, plan_.codec_of(coder->segments().front()), worker_, of_coder, stream);
      coder->encode({&gradient_, 1}, {context.step, nullptr}, stream);
    }
    gradient_parcels_.clear();
    GradientTransport transport(layout_, plan_, {one_of_two(worker_)}, 0);
    transport.append(part.rows, part.coders, 0, context, gradient_parcels_, stream);
    return gradient_parcels_.parcel(0);
  }

 private:
  struct Encoding {
    PayloadRows rows;
    std::vector<std::unique_ptr<Coder>> coders;
    const WorkerMessages& worker;

    Encoding(const WorkerMessages& of, const std::vector<Slice>& slices, PayloadForm form)
        : rows(of.plan_, one_of_two(of.worker_), {slices}, form),
          coders(make_coders(of.plan_,
                             {.layout = of.layout_,
                              .workers = one_of_two(of.worker_),
                              .seed = of.seed_,
                              .drops_nonfinite_steps = false},
                             [this](std::size_t) -> PayloadRows& { return rows; })),
          worker(of) {}
    void measure(std::uint64_t step, Stream& stream) {
      for (const auto& coder : coders) coder->measure({&worker.gradient_, 1}, {step, nullptr}, stream);
    }
  };

  std::span<const float> row_of(const Coder& coder, int segment, std::span<const float> row) const {
    const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
    if (count == 0) return {};
    return row.subspan(static_cast<std::size_t>(coder.first_scaler({segment, 0, 0})), count);
  }

  const Layout& layout_;
  const CodecPlan& plan_;
  int worker_;
  std::uint64_t seed_;
  TensorTable gradient_;
  std::vector<float> local_;
  Parcels scalers_;
  Parcels gradient_parcels_;
};

}  // namespace terngrad::testing
