#include "compress/wire/worker_encoder.h"

#include <algorithm>
#include <cmath>

#include "compress/codecs/coder.h"
#include "compress/wire/gradient_transport.h"
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
          [this](std::size_t) -> PayloadRows& { return *rows_; })),
      transport_(std::make_unique<GradientTransport>(
          layout, plan, std::vector<WorkerRange>{one_worker(worker, num_workers)}, /*rank=*/0)) {}

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
  parcels_.clear();
  transport_->append(*rows_, coders_, 0, context, parcels_, stream);
  return parcels_.parcel(0);
}

void WorkerEncoder::keep(Kept what, const TensorTable& encoded, const TensorTable& kept, Stream& stream) {
  for (const auto& coder : coders_) {
    if (!coder->codec().traits().is_exact) coder->keep(what, {&encoded, 1}, {&kept, 1}, nullptr, stream);
  }
}

}  // namespace terngrad
