#include "compress/wire/aggregate_messages.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/wire/gradient_message.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Copies the messages in order of workers, to addresses that are multiples of 8.
Parcels in_order(std::span<const std::span<const std::uint8_t>> messages) {
  std::vector<std::span<const std::uint8_t>> of_worker(messages.size());
  for (const std::span<const std::uint8_t> message : messages) {
    const std::uint32_t worker = read_label(message).worker;
    if (worker >= of_worker.size() || !of_worker[worker].empty()) {
      TERNGRAD_THROW(CommunicationError, "[aggregate] ",
                     worker < of_worker.size() ? "two messages are" : "a message is", " worker ", worker,
                     "'s, there are ", messages.size(), " workers");
    }
    of_worker[worker] = message;
  }
  Parcels parcels;
  for (const std::span<const std::uint8_t> message : of_worker) parcels.append(message);
  return parcels;
}

/// Gives every worker the shared scalers of the message; transport.read then refuses messages with others.
void agree_on_scalers(const Message& message, const CodecPlan& plan, int num_workers,
                      std::span<const std::unique_ptr<Coder>> coders) {
  for (const Message::Record& record : message.records) {
    const Slice& slice = record.encoded.slice;
    const std::span<const float> scalers = record.encoded.scalers;
    if (scalers.empty() || plan.codec_of(slice.segment).sharing() == ScalerSharing::kNone) continue;
    Coder& coder = *coders[static_cast<std::size_t>(plan.group_of(slice.segment))];
    const std::int64_t first = coder.first_scaler(slice);
    for (int worker = 0; worker < num_workers; ++worker) {
      std::ranges::copy(scalers, coder.local_row(worker).begin() + first);
    }
  }
}

}  // namespace

void aggregate_messages(std::span<const std::span<const std::uint8_t>> messages, const Layout& layout,
                        const CodecPlan& plan, int num_workers, const MessageContext& context, const TensorTable& mean,
                        Stream& stream) {
  TERNGRAD_REQUIRE(static_cast<int>(messages.size()) == num_workers, "[aggregate] got ", messages.size(),
                   " messages, expected one of each of ", num_workers, " workers");
  // Acts as a server: each worker is a process of its own, and this process has none.
  const WorkerRange none{.num_workers = num_workers, .first_local_worker = num_workers, .num_local_workers = 0};
  std::vector<WorkerRange> ranks;
  ranks.reserve(messages.size() + 1);
  for (int worker = 0; worker < num_workers; ++worker) {
    ranks.push_back({.num_workers = num_workers, .first_local_worker = worker, .num_local_workers = 1});
  }
  ranks.push_back(none);
  GradientTransport transport(layout, plan, std::move(ranks), num_workers);
  PayloadRows rows(plan, none, {whole_segments(layout)}, PayloadForm::kNatural);
  transport.expect_parts(rows, 0, 1);
  for (const CodecPlan::Group& group : plan.groups()) {
    TERNGRAD_REQUIRE(group.codec->rotation() == 0 || context.seed.has_value(),
                     "[aggregate] rotate=", group.codec->rotation(),
                     " is turned back with draws of the run: its seed has to be known");
  }
  const auto coders = make_coders(
      plan, {.layout = layout, .workers = none, .seed = context.seed.value_or(1), .drops_nonfinite_steps = false},
      [&](std::size_t) -> PayloadRows& { return rows; });
  const Parcels parcels = in_order(messages);
  Message first;
  read_gradient_message(parcels.parcel(0), layout, plan, context, first);
  agree_on_scalers(first, plan, num_workers, coders);
  NonfiniteReport report;
  for (const auto& coder : coders) coder->combine_scalers(&report, nullptr, nullptr, stream);
  transport.read(parcels, rows, coders, context, stream);
  for (const auto& coder : coders) {
    coder->aggregate(mean, AggregateUnit::kMean, stream);
    coder->finish(mean, whole_segments(layout), {context.step, nullptr}, stream);
  }
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const Segment& tensor = layout.segment(segment);
    const std::span<const float> values(mean.tensor(segment), static_cast<std::size_t>(tensor.num_elements));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      TERNGRAD_THROW(NonFiniteError, "[aggregate] the mean of tensor '", tensor.name, "' overflows");
    }
  }
}

}  // namespace terngrad
