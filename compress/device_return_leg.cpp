#include "compress/device_return_leg.h"

#include <algorithm>

#include "kernels/copy.h"
#include "kernels/errors.h"
#include "kernels/scaler.h"
#include "kernels/ternary.h"
#include "kernels/transform.h"

namespace terngrad {
namespace {

/// Bytes with those up to the next place: four elements of float32, which kernels load and store at once.
std::int64_t whole_places(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

DeviceReturnLeg::DeviceReturnLeg(const DeviceExchangeSetup& setup, const CodecPlan& plan,
                                 std::span<const std::unique_ptr<DeviceCoder>> coders, const Options& options)
    : setup_(setup),
      plan_(plan),
      options_(options),
      float32_(FloatPayload::kFloat32, setup.device),
      bfloat16_(FloatPayload::kBfloat16, setup.device),
      rounded_(FloatPayload::kRoundedBfloat16, setup.device),
      ternarizer_(setup.device),
      floats_(setup.device),
      codes_(setup.device) {
  const bool as_codes = options.codec == ReturnCodec::kSums || options.codec == ReturnCodec::kTernary;
  // Sums that go nowhere need not be: the mean they stand for has the same bits.
  const bool sums = options.codec == ReturnCodec::kTernary || (options.codec == ReturnCodec::kSums && options.travels);
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const Codec& codec = *plan.groups()[group].codec;
    TERNGRAD_REQUIRE(!as_codes || codec.sharing() != ScalerSharing::kNone, "[return leg] return codec ",
                     to_string(options.codec), " needs a scaler that all workers share; codec ", codec.name(),
                     " has scaler_sharing none");
    sums_.push_back(nullptr);
    if (!sums || !codec.traits().summable) continue;
    sums_.back().reset(new Sums{dynamic_cast<const TernaryCodec&>(codec), *coders[group]});
  }
  add_parts(options.travels ? shares(setup_.layout, setup_.workers.num_workers)
                            : std::vector<std::vector<Slice>>{whole_segments(setup_.layout)});
  place_payloads();
  if (options.codec == ReturnCodec::kSums) {
    sum_packer_ = std::make_unique<SumPacker>(setup.workers.num_workers, setup.device);
  }
  if (options.codec != ReturnCodec::kTernary) return;
  for (std::size_t group = 0; group < sums_.size(); ++group) {
    if (sums_[group] != nullptr) plan_pieces(*sums_[group], group);
  }
}

DeviceReturnLeg::Form DeviceReturnLeg::form_of(std::size_t group) const {
  if (sums_[group] != nullptr) return options_.codec == ReturnCodec::kSums ? Form::kLanes : Form::kCodes;
  return options_.codec == ReturnCodec::kBfloat16 ? Form::kBfloat16 : Form::kFloat32;
}

std::int64_t DeviceReturnLeg::bytes_of(const Slice& slice, std::size_t group) const {
  switch (form_of(group)) {
    case Form::kFloat32:
      return 4 * slice.count;
    case Form::kBfloat16:
      return (2 * slice.count + 3) / 4 * 4;
    case Form::kLanes:
      return payload_bytes(TernaryFormat::kLanes, slice.count, setup_.workers.num_workers);
    case Form::kCodes:
      return payload_bytes(sums_[group]->codec.options().format, slice.count, 1);
  }
  TERNGRAD_THROW(InvalidArgument, "[return leg] unknown form");
}

void DeviceReturnLeg::add_parts(const std::vector<std::vector<Slice>>& shares) {
  const auto first_own = static_cast<std::size_t>(setup_.workers.first_local_worker);
  const auto end_own = first_own + static_cast<std::size_t>(setup_.workers.num_local_workers);
  for (std::size_t share = 0; share < shares.size(); ++share) {
    share_bytes_.push_back(0);
    for (const Slice& slice : shares[share]) {
      const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
      const Form form = form_of(group);
      // What stays where it is has no payload, but for codes: they are drawn into one.
      if (slice.count == 0 || (!options_.travels && form != Form::kCodes)) continue;
      const bool is_own = !options_.travels || (share >= first_own && share < end_own);
      parts_.push_back({slice, group, form, share, is_own, bytes_of(slice, group)});
      share_bytes_.back() += whole_places(parts_.back().bytes);
    }
  }
}

std::vector<ByteRange> DeviceReturnLeg::ranges_of_ranks() const {
  if (!options_.travels) return {{0, share_bytes_[0]}};
  std::vector<ByteRange> ranges;
  bool equal = true;
  std::int64_t most = 0;
  for (const WorkerRange& workers : options_.ranks) {
    ByteRange range{ranges.empty() ? 0 : ranges.back().offset + ranges.back().count, 0};
    for (int worker = 0; worker < workers.num_local_workers; ++worker) {
      range.count += share_bytes_[static_cast<std::size_t>(workers.first_local_worker + worker)];
    }
    ranges.push_back(range);
    most = std::max(most, range.count);
    equal = equal && workers.num_local_workers == setup_.workers.num_local_workers;
  }
  if (!equal) return ranges;
  // Parts of ranks with equally many workers differ by a few chunks. Equal ones are gathered by a single operation, all
  // others by a broadcast from each rank.
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    ranges[rank] = {static_cast<std::int64_t>(rank) * most, most};
  }
  return ranges;
}

void DeviceReturnLeg::place_payloads() {
  const std::vector<ByteRange> ranges = ranges_of_ranks();
  const std::int64_t bytes = ranges.back().offset + ranges.back().count;
  payloads_ = Buffer<std::uint64_t>(bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)), setup_.device);
  Stream stream(setup_.device);
  fill_zero(payloads_.span(), stream);  // what lies between payloads travels with them
  stream.synchronize();
  gather_ = {reinterpret_cast<std::uint8_t*>(payloads_.data()), ranges};
  std::size_t rank = 0;
  std::int64_t offset = 0;
  for (Part& part : parts_) {
    // Shares are numbered like workers.
    const auto is_before = [&](const WorkerRange& workers) {
      return options_.travels && static_cast<int>(part.share) >= workers.first_local_worker + workers.num_local_workers;
    };
    for (; is_before(options_.ranks[rank]); ++rank) offset = ranges[rank + 1].offset;
    part.payload = gather_.buffer + offset;
    pointers_.push_back(part.payload);
    offset += whole_places(part.bytes);
  }
}

void DeviceReturnLeg::plan_pieces(Sums& sums, std::size_t group) {
  const std::int64_t block = sums.codec.kernel_block_elements();
  std::vector<Slice> pieces;
  for (const Part& part : parts_) {
    if (!part.is_own || part.group != group) continue;
    const std::int64_t end = part.slice.first + part.slice.count;
    for (std::int64_t at = part.slice.first; at < end;) {
      const std::int64_t piece_end = block == 0 ? end : std::min(end, (at / block + 1) * block);
      // A rank's shares are neighbours, so what has the same scaler is one run.
      const bool continues =
          !pieces.empty() && pieces.back().segment == part.slice.segment && (block == 0 || at % block != 0);
      if (continues) {
        pieces.back().count += piece_end - at;
      } else {
        pieces.push_back({part.slice.segment, at, piece_end - at});
      }
      at = piece_end;
    }
  }
  if (!pieces.empty()) sums.first_piece = static_cast<std::size_t>(sums.coder.first_scaler(pieces.front()));
  sums.pieces = std::make_unique<StatisticsPlan>(pieces, setup_.device);
  sums.greatest = Buffer<float>(sums.coder.num_scalers(), setup_.device);
  sums.factors = Buffer<float>(sums.coder.num_scalers(), setup_.device);
}

void DeviceReturnLeg::submit(const TensorTable& mean, const DeviceStep& step, DeviceCommunicator& communicator,
                             Stream& stream, Times* times) {
  measure(mean, communicator, stream, times != nullptr ? &times->greatest : nullptr);
  encode(mean, step, stream);
  if (times != nullptr) times->means.start(stream);
  if (options_.travels) communicator.all_gather({&gather_, 1}, stream);
  if (times != nullptr) times->means.stop(stream);
  decode(mean, stream);
  if (options_.codec == ReturnCodec::kBfloat16 && !options_.travels) round_all(mean, stream);
}

void DeviceReturnLeg::measure(const TensorTable& mean, DeviceCommunicator& communicator, Stream& stream,
                              StreamTimer* timer) {
  const auto for_each_measured = [&](const auto& body) {
    for (const auto& sums : sums_) {
      if (sums != nullptr && sums->pieces != nullptr) body(*sums);
    }
  };
  for_each_measured([&](Sums& sums) {
    fill_zero(sums.greatest.span(), stream);
    // The greatest |sum| is the scaler that clipping at 0 gives; sums are small integers.
    local_scalers(*sums.pieces, {&mean, 1}, 0, ScalerRule::kPaper,
                  sums.greatest.span().subspan(sums.first_piece, sums.pieces->slices().size()), stream);
  });
  if (timer != nullptr) timer->start(stream);
  for_each_measured([&](Sums& sums) {
    if (!options_.travels) return;
    // Bit patterns of numbers that are not negative are ordered as they are.
    auto* const bits = reinterpret_cast<std::uint32_t*>(sums.greatest.data());
    communicator.all_reduce_max({bits, sums.greatest.span().size()}, stream);
  });
  if (timer != nullptr) timer->stop(stream);
  for_each_measured(
      [&](Sums& sums) { multiply(sums.coder.scales(), sums.greatest.span(), sums.factors.span(), stream); });
}

TernarizeTask DeviceReturnLeg::draw_task(const Part& part, const TensorTable& mean) const {
  const Sums& sums = *sums_[part.group];
  return {.gradient = mean.slice(part.slice),
          .first = part.slice.first,
          .count = part.slice.count,
          .draw_offset = setup_.layout.segment(part.slice.segment).draw_offset,
          .block_elements = sums.codec.kernel_block_elements(),
          .scalers = sums.greatest.data() + sums.coder.first_scaler(part.slice),
          .payload = part.payload};
}

void DeviceReturnLeg::encode(const TensorTable& mean, const DeviceStep& step, Stream& stream) {
  float32_tasks_.clear();
  bfloat16_tasks_.clear();
  pack_tasks_.clear();
  ternarize_tasks_.clear();
  TernarizeOptions draws{.num_workers = 1, .refine_purpose = DrawPurpose::kReturnLegRefine};
  for (const Part& part : parts_) {
    if (!part.is_own) continue;
    const FloatPayloadTask numbers{
        .values = mean.slice(part.slice), .count = part.slice.count, .payload = part.payload};
    switch (part.form) {
      case Form::kFloat32:
        // Alone, it stays where it is.
        if (options_.ranks.size() > 1) float32_tasks_.push_back(numbers);
        break;
      case Form::kBfloat16:
        bfloat16_tasks_.push_back(numbers);
        break;
      case Form::kLanes:
        pack_tasks_.push_back({.sums = numbers.values, .count = numbers.count, .payload = part.payload});
        break;
      case Form::kCodes:
        draws.format = sums_[part.group]->codec.options().format;  // all of them are of the one codec ternary
        ternarize_tasks_.push_back(draw_task(part, mean));
        break;
    }
  }
  if (!float32_tasks_.empty()) float32_.run(float32_tasks_, stream);
  if (!bfloat16_tasks_.empty()) bfloat16_.run(bfloat16_tasks_, stream);
  if (!pack_tasks_.empty()) sum_packer_->run(pack_tasks_, stream);
  if (ternarize_tasks_.empty()) return;
  bytes_.resize(ternarize_tasks_.size());
  const DrawKey key{setup_.seed, step.step, 0, DrawPurpose::kReturnLeg};
  ternarizer_.run(ternarize_tasks_, draws, key, bytes_, stream, step.on_device);
}

CodeSumTask DeviceReturnLeg::code_task(std::size_t index, const TensorTable& mean) const {
  const Part& part = parts_[index];
  const Sums& sums = *sums_[part.group];
  const bool is_lanes = part.form == Form::kLanes;
  const std::span<const float> scales = is_lanes ? sums.coder.scales() : std::span<const float>(sums.factors.span());
  return {.format = is_lanes ? TernaryFormat::kLanes : sums.codec.options().format,
          .payloads = {&pointers_[index], 1},
          .payload_bytes = {&part.bytes, 1},
          .num_workers = is_lanes ? setup_.workers.num_workers : 1,
          .first = part.slice.first,
          .count = part.slice.count,
          .block_elements = sums.codec.kernel_block_elements(),
          .scales = scales.data() + sums.coder.first_scaler(part.slice),
          .out = mean.slice(part.slice)};
}

void DeviceReturnLeg::decode(const TensorTable& mean, Stream& stream) {
  leaves_.resize(parts_.size());
  mean_tasks_.clear();
  sum_tasks_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.form == Form::kLanes || part.form == Form::kCodes) {
      sum_tasks_.push_back(code_task(i, mean));
      continue;
    }
    if (part.is_own && part.form == Form::kFloat32) continue;  // it is there
    leaves_[i] = {.payload = {part.payload, static_cast<std::size_t>(part.bytes)}};
    mean_tasks_.push_back({.format = part.form == Form::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16,
                           .workers = {&leaves_[i], 1},
                           .first = part.slice.first,
                           .count = part.slice.count,
                           .out = mean.slice(part.slice)});
  }
  if (!mean_tasks_.empty()) floats_.run(mean_tasks_, stream);
  if (!sum_tasks_.empty()) codes_.run(sum_tasks_, stream);
}

void DeviceReturnLeg::round_all(const TensorTable& mean, Stream& stream) {
  float32_tasks_.clear();
  for (int segment = 0; segment < setup_.layout.num_segments(); ++segment) {
    float* values = mean.tensor(segment);
    const std::int64_t count = setup_.layout.segment(segment).num_elements;
    float32_tasks_.push_back({.values = values, .count = count, .payload = values});
  }
  rounded_.run(float32_tasks_, stream);
}

LegBytes DeviceReturnLeg::bytes() const {
  LegBytes bytes;
  if (!options_.travels || setup_.workers.num_workers == 1) return bytes;
  const auto first_own = static_cast<std::size_t>(setup_.workers.first_local_worker);
  const auto num_own = static_cast<std::size_t>(setup_.workers.num_local_workers);
  std::int64_t all = 0;
  for (std::size_t share = 0; share < share_bytes_.size(); ++share) {
    all += share_bytes_[share];
    if (share >= first_own && share < first_own + num_own) bytes.sent += share_bytes_[share];
  }
  bytes.received = all * setup_.workers.num_local_workers - bytes.sent;
  return bytes;
}

}  // namespace terngrad
