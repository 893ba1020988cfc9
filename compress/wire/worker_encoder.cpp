#include "compress/wire/worker_encoder.h"

#include <algorithm>
#include <cmath>

#include "compress/codecs/coder.h"
#include "compress/wire/payload_rows.h"

namespace terngrad {
namespace {

WorkerRange one_worker(int worker, int num_workers) {
  return {.num_workers = num_workers, .first_local_worker = worker, .num_local_workers = 1};
}

}  // namespace

WorkerEncoder::WorkerEncoder(const Layout& layout, const CodecPlan& plan, int worker, int num_workers,
                             std::uint64_t seed)
    : plan_(plan),
      worker_(worker),
      rows_(std::make_unique<PayloadRows>(plan, one_worker(worker, num_workers),
                                          std::vector<std::vector<Slice>>{whole_segments(layout)},
                                          PayloadForm::kNatural)),
      coders_(make_coders(
          plan,
          {.layout = layout, .workers = one_worker(worker, num_workers), .seed = seed, .drops_nonfinite_steps = false},
          [this](std::size_t) -> PayloadRows& { return *rows_; })) {}

WorkerEncoder::~WorkerEncoder() = default;
WorkerEncoder::WorkerEncoder(WorkerEncoder&&) noexcept = default;

void WorkerEncoder::measure(const TensorTable& gradient, std::uint64_t step, Stream& stream) {
  for (const auto& coder : coders_) coder->measure({&gradient, 1}, {step, nullptr}, stream);
}

bool WorkerEncoder::is_nonfinite(int segment) const {
  const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
  if (count == 0) return false;
  Coder& coder = *coders_[static_cast<std::size_t>(plan_.group_of(segment))];
  const auto first = static_cast<std::size_t>(coder.first_scaler({segment, 0, 0}));
  return std::ranges::any_of(coder.local_row(worker_).subspan(first, count), [](float s) { return std::isnan(s); });
}

std::span<const std::uint8_t> WorkerEncoder::gradient_message(const TensorTable& gradient,
                                                              const MessageContext& context, Stream& stream) {
  NonfiniteReport report;  // which tensors are not finite is asked for above
  for (const auto& coder : coders_) {
    coder->combine_scalers(&report, nullptr, nullptr, stream);
    coder->encode({&gradient, 1}, {context.step, nullptr}, stream);
  }
  const std::vector<Slice>& slices = rows_->parts()[0];
  writer_.begin(MessageKind::kGradient, context, worker_, slices.size(), rows_->message_bytes(0, 0));
  for (std::size_t index = 0; index < slices.size(); ++index) {
    const Slice& slice = slices[index];
    const Codec& codec = plan_.codec_of(slice.segment);
    const auto num_scalers = static_cast<std::size_t>(codec.scaler_range(slice).count);
    std::span<const float> scalers;
    if (num_scalers > 0) {
      const Coder& coder = *coders_[static_cast<std::size_t>(plan_.group_of(slice.segment))];
      scalers = coder.sent_scalers(worker_).subspan(static_cast<std::size_t>(coder.first_scaler(slice)), num_scalers);
    }
    const std::span<const std::uint8_t> payload = rows_->payload(0, index, 0);
    std::uint8_t* const codes = writer_.add(slice, codec.wire_id(), codec.record_format(PayloadForm::kNatural), scalers,
                                            static_cast<std::int64_t>(payload.size()));
    std::ranges::copy(payload, codes);
  }
  return writer_.finish();
}

}  // namespace terngrad
