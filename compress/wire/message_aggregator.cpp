#include "compress/wire/message_aggregator.h"

#include <algorithm>
#include <cstring>

#include "compress/wire/gradient_message.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_sharing.h"

namespace terngrad {
namespace {

/// Nobody's own: all messages come from others.
WorkerRange no_worker(int num_workers) {
  return {.num_workers = num_workers, .first_local_worker = 0, .num_local_workers = 0};
}

PayloadRows make_rows(const Layout& layout, const CodecPlan& plan, int num_workers) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[message] a mean is over at least 1 worker, got ", num_workers);
  PayloadRows rows(plan, no_worker(num_workers), {whole_segments(layout)}, PayloadForm::kNatural);
  rows.aggregate_parts(0, 1, std::vector<int>(plan.groups().size(), num_workers));
  return rows;
}

}  // namespace

MessageAggregator::MessageAggregator(const Layout& layout, const CodecPlan& plan, int num_workers)
    : layout_(layout),
      plan_(plan),
      rows_(make_rows(layout, plan, num_workers)),
      coders_(make_coders(plan, {.layout = layout, .workers = no_worker(num_workers), .drops_nonfinite_steps = false},
                          [this](std::size_t) -> PayloadRows& { return rows_; })),
      messages_(static_cast<std::size_t>(num_workers)) {}

void MessageAggregator::aggregate(std::span<const std::span<const std::uint8_t>> messages,
                                  const MessageContext& context, const TensorTable& mean, Stream& stream) {
  const std::size_t num_workers = messages_.size();
  if (messages.size() != num_workers) {
    TERNGRAD_THROW(CommunicationError, "[message] the mean of ", num_workers, " workers needs a message of each, got ",
                   messages.size());
  }
  std::vector<bool> has_come(num_workers, false);
  Message read;
  for (const std::span<const std::uint8_t> bytes : messages) {
    read_gradient_message(bytes, layout_, plan_, context, read);
    const auto worker = static_cast<std::size_t>(read.worker);
    if (worker >= num_workers || has_come[worker]) {
      TERNGRAD_THROW(CommunicationError, "[message] worker ", read.worker,
                     worker < num_workers ? " comes twice" : " is none of ", worker < num_workers ? "" : "the ",
                     num_workers, " workers");
    }
    has_come[worker] = true;
    std::swap(messages_[worker], read);
  }
  for (int segment = 0; segment < layout_.num_segments(); ++segment) take_scalers(segment);
  NonfiniteReport none;  // messages hold no NaN
  for (const auto& coder : coders_) coder->combine_scalers(&none, nullptr, nullptr, stream);
  std::vector<std::size_t> next(coders_.size(), 0);  // of each group's incoming
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    if (layout_.segment(segment).num_elements == 0) continue;
    const auto group = static_cast<std::size_t>(plan_.group_of(segment));
    PayloadSlots& slots = rows_.slots(group);
    for (const Message& message : messages_) {
      const auto& payload = message.records[static_cast<std::size_t>(segment)].encoded.payload;
      slots.incoming[next[group]] = payload.data();
      slots.incoming_bytes[next[group]++] = static_cast<std::int64_t>(payload.size());
    }
  }
  for (const auto& coder : coders_) coder->aggregate(mean, AggregateUnit::kMean, stream);
}

void MessageAggregator::take_scalers(int segment) {
  const bool is_shared = plan_.codec_of(segment).sharing() != ScalerSharing::kNone;
  Coder& coder = *coders_[static_cast<std::size_t>(plan_.group_of(segment))];
  const auto index = static_cast<std::size_t>(segment);
  const std::span<const float> first = messages_[0].records[index].encoded.scalers;
  if (first.empty()) return;
  const auto place = static_cast<std::size_t>(coder.first_scaler({segment, 0, 0}));
  for (std::size_t worker = 0; worker < messages_.size(); ++worker) {
    const std::span<const float> scalers = messages_[worker].records[index].encoded.scalers;
    if (is_shared && std::memcmp(scalers.data(), first.data(), first.size_bytes()) != 0) {
      TERNGRAD_THROW(CommunicationError, "[message] workers share the scalers of tensor '",
                     layout_.segment(segment).name, "', but worker ", worker, " has others than worker 0");
    }
    // The combination of equal scalers is that scaler, whether it is their max or their mean.
    std::ranges::copy(scalers, coder.local_row(static_cast<int>(worker)).begin() + static_cast<std::ptrdiff_t>(place));
  }
}

}  // namespace terngrad
