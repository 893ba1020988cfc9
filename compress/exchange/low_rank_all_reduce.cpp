#include "compress/exchange/low_rank_all_reduce.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "compress/coding/kept.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/runtime/stopwatch.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {
namespace {

constexpr float kMaxFloat = std::numeric_limits<float>::max();
constexpr std::int64_t kGrainChunks = 4;

}  // namespace

CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options) {
  if (options.algorithm == ExchangeAlgorithm::kIntegerSum) options.algorithm = ExchangeAlgorithm::kAllGather;
  if (options.downlink_codec != DownlinkCodec::kBfloat16) options.downlink_codec = DownlinkCodec::kFloat32;
  return options;
}

LowRankAllReduce::LowRankAllReduce(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers,
                                   const CompressedAllReduceOptions& options, FactorState& factors)
    : layout_(layout),
      rounds_(low_rank_rounds(layout, plan, workers.num_workers)),
      options_(options),
      num_local_workers_(workers.num_local_workers),
      stream_(Device::cpu(), options.num_threads) {
  TERNGRAD_REQUIRE(options.update == nullptr, "[low_rank] an update of shards needs a mean that is found in one round");
  std::int64_t num_p = 0;
  std::int64_t num_q = 0;
  for (const int index : rounds_.segments) {
    const Segment& segment = layout.segment(index);
    Tensor tensor{.segment = index,
                  .sizes = factor_sizes(segment, plan.codec_of(index).low_rank()->rank),
                  .draw_offset = segment.draw_offset,
                  .kept = factors.find(segment.name),
                  .p_offset = num_p,
                  .q_offset = num_q};
    num_p += tensor.num_p();
    num_q += tensor.num_q();
    tensors_.push_back(tensor);
  }
  first_ = std::make_unique<CompressedAllReduce>(rounds_.first, rounds_.first_plan, workers, options);
  second_ =
      std::make_unique<CompressedAllReduce>(rounds_.second, rounds_.second_plan, workers, of_second_round(options));
  begun_q_ = Buffer<float>(num_q);
  mean_p_ = Buffer<float>(num_p);
  mean_q_ = Buffer<float>(num_q);
  for (int worker = 0; worker < num_local_workers_; ++worker) {
    own_p_.emplace_back(num_p);
    own_q_.emplace_back(num_q);
  }
  is_zero_.resize(static_cast<std::size_t>(num_local_workers_) * tensors_.size());
}

void LowRankAllReduce::begin_factors(std::uint64_t step) {
  const DrawKey key{options_.seed, step, 0, DrawPurpose::kFactorInit};
  for (const Tensor& tensor : tensors_) {
    for (std::int64_t j = 0; j < tensor.sizes.rank; ++j) {
      const std::int64_t at = j * tensor.sizes.columns;
      const std::span<float> column(begun_q_.data() + tensor.q_offset + at,
                                    static_cast<std::size_t>(tensor.sizes.columns));
      if (tensor.kept != nullptr) std::copy_n(tensor.kept + at, column.size(), column.data());
      if (tensor.kept != nullptr && std::ranges::any_of(column, [](float value) { return value != 0; })) continue;
      draw_factor(key, static_cast<std::uint64_t>(tensor.draw_offset + at), column);
    }
  }
}

TensorTable LowRankAllReduce::with_factors(const TensorTable& whole, float* p) const {
  std::vector<float*> tensors;
  tensors.reserve(static_cast<std::size_t>(layout_.num_segments()));
  for (int segment = 0; segment < layout_.num_segments(); ++segment) tensors.push_back(whole.tensor(segment));
  for (const Tensor& tensor : tensors_) tensors[static_cast<std::size_t>(tensor.segment)] = p + tensor.p_offset;
  return {rounds_.first, tensors};
}

void LowRankAllReduce::multiply_columns(std::span<const TensorTable> gradients) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const auto& [rows, columns, rank] = tensors_[t].sizes;
      float* const p = own_p_[worker].data() + tensors_[t].p_offset;
      products_.times_columns({gradients[worker].tensor(tensors_[t].segment), rows, columns},
                              begun_q_.data() + tensors_[t].q_offset, rank, p, stream_);
      // One element that is not finite makes its row of P so: it is then a tensor that is not finite to the exchange.
      is_zero(worker, t) = are_within({p, static_cast<std::size_t>(tensors_[t].num_p())}, kMaxFloat, stream_) ? 0 : 1;
    }
  }
}

void LowRankAllReduce::multiply_rows(std::span<const TensorTable> gradients) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const auto& [rows, columns, rank] = tensors_[t].sizes;
      const std::span<float> q(own_q_[worker].data() + tensors_[t].q_offset,
                               static_cast<std::size_t>(tensors_[t].num_q()));
      if (is_zero(worker, t) != 0) {
        std::ranges::fill(q, 0.0f);
        continue;
      }
      products_.times_rows({gradients[worker].tensor(tensors_[t].segment), rows, columns},
                           mean_p_.data() + tensors_[t].p_offset, rank, q.data(), stream_);
      if (!are_within(q, kMaxFloat, stream_)) is_zero(worker, t) = 1;
    }
  }
}

void LowRankAllReduce::elements(const Tensor& tensor, const float* q, std::int64_t first, std::span<float> out) const {
  low_rank_elements(mean_p_.data() + tensor.p_offset, tensor.sizes.rows, q, tensor.sizes.columns, tensor.sizes.rank,
                    first, out);
}

void LowRankAllReduce::write_mean(const TensorTable& mean, NonfiniteTensors& found) {
  for (const Tensor& tensor : tensors_) {
    const std::int64_t count = layout_.segment(tensor.segment).num_elements;
    float* const values = mean.tensor(tensor.segment);
    const std::int64_t num_chunks = (count + kChunkElements - 1) / kChunkElements;
    parallel_for(stream_.num_threads(), num_chunks, kGrainChunks, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * kChunkElements;
      const std::int64_t last = std::min(end * kChunkElements, count);
      elements(tensor, mean_q_.data() + tensor.q_offset, first,
               {values + first, static_cast<std::size_t>(last - first)});
    });
    const std::span<float> all(values, static_cast<std::size_t>(count));
    if (are_within(all, max_mean(options_.mean_factor), stream_)) continue;
    found.add_mean(layout_.segment(tensor.segment));
    std::ranges::fill(all, 0.0f);
  }
}

ExchangeReport LowRankAllReduce::exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                               std::uint64_t step, NonfiniteTensors& found) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  has_sent_ = false;
  auto mark = std::chrono::steady_clock::now();
  begin_factors(step);
  multiply_columns(gradients);
  std::vector<TensorTable> tables;
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    tables.push_back(with_factors(gradients[worker], own_p_[worker].data()));
  }
  const TensorTable first_mean = with_factors(mean, mean_p_.data());
  double encode_seconds = lap_seconds(mark);
  NonfiniteTensors found_here;
  ExchangeReport report = first_->exchange_part(tables, first_mean, step, found_here);
  const bool drops = options_.on_nonfinite != OnNonfinite::kZero;
  // Known to all ranks, so that none of them waits for another in the second round.
  if (!found_here.empty() && drops) {
    found.add(found_here);
    report.encode_seconds += encode_seconds;
    return report;
  }
  lap_seconds(mark);
  for (const Tensor& tensor : tensors_) {
    LowRankProducts::orthonormalize(mean_p_.data() + tensor.p_offset, tensor.sizes.rows, tensor.sizes.rank);
  }
  report.decode_seconds += lap_seconds(mark);
  multiply_rows(gradients);
  std::vector<float*> tensors;
  const auto q_table = [&](float* q) {
    tensors.clear();
    for (const Tensor& tensor : tensors_) tensors.push_back(q + tensor.q_offset);
    return TensorTable(rounds_.second, tensors);
  };
  tables.clear();
  for (Buffer<float>& q : own_q_) tables.push_back(q_table(q.data()));
  encode_seconds += lap_seconds(mark);
  report += second_->exchange_part(tables, q_table(mean_q_.data()), step, found_here);
  lap_seconds(mark);
  if (found_here.empty() || !drops) write_mean(mean, found_here);
  report.decode_seconds += lap_seconds(mark);
  report.encode_seconds += encode_seconds;
  has_sent_ = found_here.empty() || !drops;
  found.add(found_here);
  return report;
}

const LowRankAllReduce::Tensor* LowRankAllReduce::find(int segment) const {
  const auto found = std::ranges::find(tensors_, segment, &Tensor::segment);
  return found == tensors_.end() ? nullptr : &*found;
}

float LowRankAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  const Tensor* const tensor = find(segment);
  if (tensor == nullptr) return first_->decode_local(local_worker, segment, out);
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < num_local_workers_, "[exchange] no local worker ", local_worker);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements,
                   "[exchange] tensor '", layout_.segment(segment).name, "' has ",
                   layout_.segment(segment).num_elements, " elements, out holds ", out.size());
  TERNGRAD_REQUIRE(has_sent_ || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  const auto worker = static_cast<std::size_t>(local_worker);
  if (is_zero(worker, static_cast<std::size_t>(tensor - tensors_.data())) != 0) {
    std::ranges::fill(out, 0.0f);
  } else {
    elements(*tensor, own_q_[worker].data() + tensor->q_offset, 0, out);
  }
  return 0;
}

void LowRankAllReduce::keep(Kept what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept) {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] the last step sent nothing that could be kept");
  // Factors travel as fp32, which leaves nothing out: of these tables only other tensors are looked at.
  std::vector<TensorTable> rest_encoded;
  std::vector<TensorTable> rest_kept;
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    rest_encoded.push_back(with_factors(encoded[worker], own_p_[worker].data()));
    rest_kept.push_back(with_factors(kept[worker], own_p_[worker].data()));
  }
  first_->keep(what, rest_encoded, rest_kept);
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (is_zero(worker, t) != 0) continue;
      const Tensor& tensor = tensors_[t];
      const std::int64_t count = layout_.segment(tensor.segment).num_elements;
      const float* const from = encoded[worker].tensor(tensor.segment);
      float* const to = kept[worker].tensor(tensor.segment);
      const std::int64_t num_chunks = (count + kChunkElements - 1) / kChunkElements;
      parallel_for(stream_.num_threads(), num_chunks, kGrainChunks, [&](std::int64_t begin, std::int64_t end) {
        std::array<float, kChunkElements> sent;
        Stream own;
        for (std::int64_t first = begin * kChunkElements; first < std::min(end * kChunkElements, count);
             first += kChunkElements) {
          const std::int64_t size = std::min(kChunkElements, count - first);
          if (what == Kept::kUnsent) {
            elements(tensor, own_q_[worker].data() + tensor.q_offset, first,
                     std::span(sent).first(static_cast<std::size_t>(size)));
          }
          terngrad::keep({.encoded = from + first,
                          .sent = what == Kept::kUnsent ? sent.data() : nullptr,
                          .kept = to + first,
                          .count = size},
                         own);
        }
      });
    }
  }
}

void LowRankAllReduce::commit() {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] the last step found no factors");
  for (const Tensor& tensor : tensors_) {
    if (tensor.kept != nullptr) std::copy_n(mean_q_.data() + tensor.q_offset, tensor.num_q(), tensor.kept);
  }
}

}  // namespace terngrad
