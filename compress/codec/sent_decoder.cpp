#include "compress/codec/sent_decoder.h"

#include <algorithm>
#include <optional>

#include "compress/codec/codec.h"
#include "compress/codec/coder.h"
#include "compress/codec/payload_slots.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Alignment of each slice in elements, for vector accesses.
constexpr std::int64_t kAlignment = 64;

}  // namespace

SentDecoder::SentDecoder(const Codec& codec, const CoderSetup& setup, const PayloadSlots& slots,
                         std::int64_t num_scalers)
    : codec_(codec), setup_(setup), slots_(slots), decoding_(decoding_of()) {
  std::int64_t num_elements = 0;
  for (const Slice& slice : slots.encoded) num_elements += (slice.count + kAlignment - 1) / kAlignment * kAlignment;
  elements_ = Buffer<float>(num_elements, setup.device);
  std::int64_t first = 0;
  for (const Slice& slice : slots.encoded) {
    of_slices_.push_back(elements_.data() + first);
    first += (slice.count + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (int worker = 0; worker < setup.workers.num_local_workers; ++worker) {
    if (decoding_ == Decoding::kLanes) code_summers_.emplace_back(setup.device);
    if (decoding_ == Decoding::kLeaves) tree_summers_.emplace_back(setup.device);
    if (decoding_ == Decoding::kSparse) sparse_summers_.emplace_back(setup.device);
    if (decoding_ == Decoding::kDrawn) drawn_summers_.emplace_back(setup.device);
  }
  if (decoding_ != Decoding::kLanes) return;
  Stream stream(setup.device);
  places_ = Buffer<ScalerPlace>(num_scalers, setup.device);
  copy<ScalerPlace>(std::vector<ScalerPlace>(static_cast<std::size_t>(num_scalers)), places_.span(), stream);
  units_ = Buffer<float>(num_scalers, setup.device);
  unused_ = Buffer<float>(2 * num_scalers, setup.device);
  report_ = Buffer<NonfiniteReport>(1, setup.device);
  fill_zero(report_.span(), stream);
  stream.synchronize();
}

SentDecoder::Decoding SentDecoder::decoding_of() const {
  if (slots_.form == PayloadForm::kLanes) return Decoding::kLanes;
  if (codec_.leaf_form()) return Decoding::kLeaves;
  const auto has_elements = [](const Slice& slice) { return slice.count > 0; };
  const auto slice = std::ranges::find_if(slots_.encoded, has_elements);
  if (slice == slots_.encoded.end()) return Decoding::kHost;  // there is nothing to decode
  if (codec_.sparse_form(*slice)) return Decoding::kSparse;
  return codec_.drawn_form(*slice) ? Decoding::kDrawn : Decoding::kHost;
}

const std::uint8_t* SentDecoder::payload(std::size_t encoded, std::size_t local_worker) const {
  return slots_.outgoing[encoded * static_cast<std::size_t>(setup_.workers.num_local_workers) + local_worker];
}

std::int64_t SentDecoder::payload_bytes(std::size_t encoded, std::size_t local_worker) const {
  return slots_.outgoing_bytes[encoded * static_cast<std::size_t>(setup_.workers.num_local_workers) + local_worker];
}

void SentDecoder::decode_leaves(std::size_t local_worker, const float* scalers,
                                std::span<const std::int64_t> first_scalers, Stream& stream) {
  const Codec::LeafForm form = *codec_.leaf_form();
  std::vector<MeanLeaf> leaves;
  std::vector<MeanTask> tasks;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(payload_bytes(i, local_worker));
    leaves.push_back({.payload = {payload(i, local_worker), bytes}, .scalers = scalers + first_scalers[i]});
  }
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    tasks.push_back({.format = form.format,
                     .workers = {leaves.data() + i, 1},
                     .first = slots_.encoded[i].first,
                     .count = slots_.encoded[i].count,
                     .block_elements = form.block_elements,
                     .out = of_slices_[i],
                     .two_scalers = form.two_scalers,
                     .columns = form.columns});
  }
  tree_summers_[local_worker].run(tasks, stream);
}

void SentDecoder::decode_lanes(std::size_t local_worker, const float* scalers,
                               std::span<const std::int64_t> first_scalers, Stream& stream) {
  const SumForm form = codec_.sum_form();
  const std::int64_t num_scalers = units_.num_elements();
  // For one worker, the scale fl(s / fl(L N)) is the unit.
  combine_scalers({.places = places_.data(),
                   .num_scalers = num_scalers,
                   .num_workers = 1,
                   .max_sum = form.levels,
                   .num_local_workers = 0,
                   .local = scalers,
                   .own = unused_.data(),
                   .shared = unused_.data() + num_scalers,
                   .scales = units_.data(),
                   .report = report_.data()},
                  stream);
  std::vector<const std::uint8_t*> payloads;
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    payloads.push_back(payload(i, local_worker));
    bytes.push_back(payload_bytes(i, local_worker));
  }
  std::vector<CodeSumTask> tasks;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    tasks.push_back({.format = CodeFormat::kLanes,
                     .payloads = {payloads.data() + i, 1},
                     .payload_bytes = {bytes.data() + i, 1},
                     .num_workers = setup_.workers.num_workers,
                     .summed_workers = 1,
                     .first = slots_.encoded[i].first,
                     .count = slots_.encoded[i].count,
                     .block_elements = form.block_elements,
                     .scales = units_.data() + first_scalers[i],
                     .out = of_slices_[i],
                     .lane_levels = 2 * form.levels});
  }
  code_summers_[local_worker].run(tasks, stream);
}

void SentDecoder::decode_sparse(std::size_t local_worker, Stream& stream) {
  std::vector<SparseMessage> messages;
  messages.reserve(slots_.encoded.size());
  std::vector<SparseSumTask> tasks;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    const std::optional<SparseShape> shape = codec_.sparse_form(slots_.encoded[i]);
    TERNGRAD_REQUIRE(shape || slots_.encoded[i].count == 0, "[", codec_.name(), "] a slice has no sparse form");
    if (!shape) continue;
    messages.push_back({*shape, {payload(i, local_worker), static_cast<std::size_t>(payload_bytes(i, local_worker))}});
    tasks.push_back({.workers = {&messages.back(), 1}, .out = of_slices_[i]});
  }
  sparse_summers_[local_worker].run(tasks, stream);
}

void SentDecoder::decode_drawn(std::size_t local_worker, Stream& stream) {
  std::vector<const std::uint8_t*> payloads;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) payloads.push_back(payload(i, local_worker));
  std::vector<DrawnSumTask> tasks;
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    const std::optional<DrawnShape> shape = codec_.drawn_form(slots_.encoded[i]);
    if (shape->count > 0)
      tasks.push_back({.shape = *shape, .payloads = {payloads.data() + i, 1}, .out = of_slices_[i]});
  }
  drawn_summers_[local_worker].run(tasks, stream);
}

void SentDecoder::decode_on_host(std::size_t local_worker, const float* scalers,
                                 std::span<const std::int64_t> first_scalers, Stream& stream) {
  for (std::size_t i = 0; i < slots_.encoded.size(); ++i) {
    const Slice& slice = slots_.encoded[i];
    std::vector<float> of_slice(static_cast<std::size_t>(codec_.scaler_range(slice).count));
    copy<float>({scalers + first_scalers[i], of_slice.size()}, std::span(of_slice), stream);
    const auto bytes = static_cast<std::size_t>(payload_bytes(i, local_worker));
    std::vector<std::uint64_t> words((bytes + 7) / 8);
    const std::span<std::uint8_t> on_host(reinterpret_cast<std::uint8_t*>(words.data()), bytes);
    copy<std::uint8_t>({payload(i, local_worker), bytes}, on_host, stream);
    stream.synchronize();
    std::vector<float> elements(static_cast<std::size_t>(slice.count));
    codec_.decode_range({slice, codec_.record_format(slots_.form), of_slice, on_host}, 0, elements);
    copy<float>(elements, std::span(of_slices_[i], elements.size()), stream);
    stream.synchronize();
  }
}

std::span<float* const> SentDecoder::run(std::size_t local_worker, const float* scalers,
                                         std::span<const std::int64_t> first_scalers, Stream& stream) {
  switch (decoding_) {
    case Decoding::kLanes:
      decode_lanes(local_worker, scalers, first_scalers, stream);
      break;
    case Decoding::kLeaves:
      decode_leaves(local_worker, scalers, first_scalers, stream);
      break;
    case Decoding::kSparse:
      decode_sparse(local_worker, stream);
      break;
    case Decoding::kDrawn:
      decode_drawn(local_worker, stream);
      break;
    case Decoding::kHost:
      decode_on_host(local_worker, scalers, first_scalers, stream);
      break;
  }
  return of_slices_;
}

}  // namespace terngrad
