#include "compress/wire/worker_encoder.h"

#include <algorithm>
#include <cmath>

#include "compress/codec/coder.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "kernels/runtime/errors.h"

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
      num_segments_(layout.num_segments()),
      num_workers_(num_workers),
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

template <class Body>
void WorkerEncoder::for_each_row(int worker, const Body& body) const {
  for (int segment = 0; segment < num_segments_; ++segment) {
    const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
    if (count == 0) continue;
    Coder& coder = *coders_[static_cast<std::size_t>(plan_.group_of(segment))];
    const auto first = static_cast<std::size_t>(coder.first_scaler({segment, 0, 0}));
    body(plan_.first_scaler(segment), coder.local_row(worker).subspan(first, count));
  }
}

void WorkerEncoder::copy_scalers(std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == plan_.num_scalers(), "[encoder] there are ",
                   plan_.num_scalers(), " scalers, room for ", out.size());
  for_each_row(worker_,
               [&](std::int64_t first, std::span<const float> row) { std::ranges::copy(row, out.begin() + first); });
}

void WorkerEncoder::set_scalers(int worker, std::span<const float> scalers) {
  TERNGRAD_REQUIRE(worker >= 0 && worker < num_workers_ && worker != worker_, "[encoder] worker ", worker,
                   " is none of the others of ", num_workers_);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(scalers.size()) == plan_.num_scalers(), "[encoder] there are ",
                   plan_.num_scalers(), " scalers, got ", scalers.size());
  for_each_row(worker, [&](std::int64_t first, std::span<float> row) {
    std::ranges::copy(scalers.subspan(static_cast<std::size_t>(first), row.size()), row.begin());
  });
}

std::span<const std::uint8_t> WorkerEncoder::gradient_message(const TensorTable& gradient,
                                                              const MessageContext& context, Stream& stream) {
  NonfiniteReport report;  // unused: is_nonfinite reports such tensors
  for (const auto& coder : coders_) {
    coder->combine_scalers(&report, nullptr, nullptr, stream);
    coder->encode({&gradient, 1}, {context.step, nullptr}, stream);
  }
  parcels_.clear();
  transport_->append(*rows_, coders_, 0, context, parcels_, stream);
  return parcels_.parcel(0);
}

void WorkerEncoder::update_memory(const MemoryUpdate& what, const TensorTable& encoded, const TensorTable& kept,
                                  Stream& stream) {
  for (const auto& coder : coders_) {
    coder->update_memory(what, {&encoded, 1}, {&kept, 1}, nullptr, stream);
  }
}

}  // namespace terngrad
