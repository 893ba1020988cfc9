#include "compress/codecs/ternary_codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <sstream>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

std::vector<Slice> statistics_slices(const Layout& layout, const std::vector<int>& segments,
                                     std::int64_t block_elements) {
  std::vector<Slice> slices;
  for (const int index : segments) {
    const std::int64_t n = layout.segment(index).num_elements;
    const std::int64_t step = block_elements == 0 ? std::max<std::int64_t>(n, 1) : block_elements;
    for (std::int64_t first = 0; first < n; first += step) slices.push_back({index, first, std::min(step, n - first)});
  }
  return slices;
}

namespace {

class TernaryEncoder final : public Encoder {
 public:
  TernaryEncoder(const TernaryCodec& codec, const Layout& layout, const std::vector<int>& segments)
      : options_(codec.options()),
        block_elements_(codec.kernel_block_elements()),
        plan_(statistics_slices(layout, segments, block_elements_)) {
    draw_offsets_.resize(static_cast<std::size_t>(layout.num_segments()));
    for (int index = 0; index < layout.num_segments(); ++index) {
      draw_offsets_[static_cast<std::size_t>(index)] = layout.segment(index).draw_offset;
    }
    // Scalers that are not changed by sharing need no second pass over the gradient: codes are drawn while a block is
    // in the cache. Local clipping changes nothing then, since a worker's own scaler is the one it encodes with.
    const bool own_scalers = options_.sharing == ScalerSharing::kNone || options_.num_workers == 1;
    draws_ahead_ = own_scalers && options_.format == TernaryFormat::kT2 && block_elements_ > 0 &&
                   block_elements_ % kChunkElements == 0;
    if (!draws_ahead_) return;
    std::int64_t bytes = 0;
    drawn_offsets_.resize(draw_offsets_.size());
    for (const int index : segments) {
      drawn_offsets_[static_cast<std::size_t>(index)] = bytes;
      bytes += payload_bytes(TernaryFormat::kT2, layout.segment(index).num_elements, 1);
    }
    drawn_ = Buffer<std::uint8_t>(bytes);
    for (const int index : segments) {
      ahead_.push_back({.count = layout.segment(index).num_elements,
                        .draw_offset = layout.segment(index).draw_offset,
                        .block_elements = block_elements_,
                        .payload = drawn_.data() + drawn_offsets_[static_cast<std::size_t>(index)]});
      ahead_segments_.push_back(index);
    }
  }

  void measure(const TensorTable& gradient, std::span<float> scalers, const DrawKey& key, Stream& stream) override {
    TERNGRAD_REQUIRE(scalers.size() == plan_.slices().size(), "[ternary] need ", plan_.slices().size(),
                     " scalers, have ", scalers.size());
    if (draws_ahead_) {
      draw_ahead(gradient, scalers, key, stream);
      return flag_whole_tensors(scalers);
    }
    if (options_.scope == ScalerScope::kModel) {
      // A tensor that is not finite carries the flag by itself, so that a message can name it.
      return model_scalers(plan_, {&gradient, 1}, options_.clip_factor, options_.rule, scalers, stream);
    }
    local_scalers(plan_, {&gradient, 1}, options_.clip_factor, options_.rule, scalers, stream);
    flag_whole_tensors(scalers);
  }

  void encode(const TensorTable& gradient, std::span<EncodeJob> jobs, PayloadForm form, const DrawKey& key,
              Stream& stream) override {
    if (draws_ahead_ && form == PayloadForm::kNatural) return copy_drawn(jobs);
    tasks_.resize(jobs.size());
    bytes_.resize(jobs.size());
    std::size_t num_scalers = 0;
    for (const EncodeJob& job : jobs) num_scalers += job.shared.size();
    scalers_.resize(num_scalers);
    float* scalers = scalers_.data();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const EncodeJob& job = jobs[i];
      // A tensor that was not finite counts as zero: its own scaler is 0 here, whatever the others' is.
      for (std::size_t s = 0; s < job.shared.size(); ++s) scalers[s] = std::isnan(job.local[s]) ? 0.0f : job.shared[s];
      tasks_[i] = {
          .gradient = gradient.data(job.slice),
          .first = job.slice.first,
          .count = job.slice.count,
          .draw_offset = draw_offsets_[static_cast<std::size_t>(job.slice.segment)],
          .block_elements = block_elements_,
          .scalers = scalers,
          .clips = options_.clip_scope == ClipScope::kLocal && options_.clip_factor > 0 ? job.local.data() : nullptr,
          .payload = job.payload,
          .type = gradient.type()};
      scalers += job.shared.size();
    }
    DrawKey ternarize_key = key;
    ternarize_key.purpose = DrawPurpose::kTernarize;
    const TernarizeOptions kernel_options{
        .format = form == PayloadForm::kLanes ? TernaryFormat::kLanes : options_.format,
        .num_workers = options_.num_workers};
    ternarize(tasks_, kernel_options, ternarize_key, bytes_, stream);
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].payload_bytes = bytes_[i];
  }

 private:
  /// A tensor counts as a whole: one block that is not finite flags all of its tensor's.
  void flag_whole_tensors(std::span<float> scalers) const {
    const std::span<const Slice> slices = plan_.slices();
    for (std::size_t begin = 0; begin < slices.size();) {
      std::size_t end = begin;
      bool finite = true;
      for (; end < slices.size() && slices[end].segment == slices[begin].segment; ++end) {
        finite = finite && !std::isnan(scalers[end]);
      }
      if (!finite)
        std::fill(scalers.begin() + static_cast<std::ptrdiff_t>(begin),
                  scalers.begin() + static_cast<std::ptrdiff_t>(end), canonical_nan());
      begin = end;
    }
  }

  void draw_ahead(const TensorTable& gradient, std::span<float> scalers, const DrawKey& key, Stream& stream) {
    float* next = scalers.data();
    for (std::size_t i = 0; i < ahead_.size(); ++i) {
      ahead_[i].gradient = gradient.data(ahead_segments_[i]);
      ahead_[i].type = gradient.type();
      ahead_[i].scalers = next;
      next += num_blocks(0, ahead_[i].count, block_elements_);
    }
    encode_blocks(ahead_, options_.clip_factor, options_.rule, key, stream);
  }

  /// Slices begin on chunks, so their codes begin on words of the whole tensor's.
  void copy_drawn(std::span<EncodeJob> jobs) const {
    for (EncodeJob& job : jobs) {
      const std::uint8_t* drawn = drawn_.data() + drawn_offsets_[static_cast<std::size_t>(job.slice.segment)];
      job.payload_bytes = payload_bytes(TernaryFormat::kT2, job.slice.count, 1);
      if (!job.local.empty() && std::isnan(job.local[0])) {
        std::memset(job.payload, 0, static_cast<std::size_t>(job.payload_bytes));
      } else {
        std::memcpy(job.payload, drawn + job.slice.first / 4, static_cast<std::size_t>(job.payload_bytes));
      }
    }
  }

  TernaryOptions options_;
  std::int64_t block_elements_;
  bool draws_ahead_ = false;
  Buffer<std::uint8_t> drawn_;               // t2 codes of all tensors
  std::vector<std::int64_t> drawn_offsets_;  // by segment
  std::vector<EncodeBlocksTask> ahead_;
  std::vector<int> ahead_segments_;
  StatisticsPlan plan_;
  std::vector<std::int64_t> draw_offsets_;
  std::vector<TernarizeTask> tasks_;  // kept from step to step: a step allocates nothing
  std::vector<std::int64_t> bytes_;
  std::vector<float> scalers_;
};

const char* text(ScalerSharing sharing) {
  return sharing == ScalerSharing::kMax ? "max" : sharing == ScalerSharing::kMean ? "mean" : "none";
}

}  // namespace

TernaryCodec::TernaryCodec(const TernaryOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(std::isfinite(options.clip_factor) && options.clip_factor >= 0,
                   "[ternary] clip_factor must be 0 (no clipping) or positive, got ", options.clip_factor);
  TERNGRAD_REQUIRE(options.format != TernaryFormat::kLanes, "[ternary] format ", to_string(options.format),
                   " is for sums over workers (integer_sum, downlink codec sums); accepted: t2, t5, tmask");
  TERNGRAD_REQUIRE(options.num_workers <= kMaxSummedWorkers, "[ternary] num_workers must be at most ",
                   kMaxSummedWorkers, ", got ", options.num_workers);
  TERNGRAD_REQUIRE(options.block_elements <= kMaxBlockElements, "[ternary] block_elements must be at most ",
                   kMaxBlockElements, ", got ", options.block_elements);
  TERNGRAD_REQUIRE(options.block_elements > 0 && options.block_elements % kMinBlockElements == 0,
                   "[ternary] block_elements must be a positive multiple of ", kMinBlockElements, ", got ",
                   options.block_elements);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[ternary] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& TernaryCodec::name() const {
  static const std::string name = "ternary";
  return name;
}

CodecTraits TernaryCodec::traits() const {
  const double bits = options_.format == TernaryFormat::kT2 ? 2.0 : options_.format == TernaryFormat::kT5 ? 1.6 : 2.0;
  return {.bits_per_element = bits,
          .fixed_size = has_fixed_size(options_.format),
          .max_scaler = kMaxScaler,
          .unbiased = options_.clip_factor == 0 && options_.sharing != ScalerSharing::kMean,
          .wants_error_feedback = false,
          .summable = options_.sharing != ScalerSharing::kNone,
          .per_tensor = options_.scope != ScalerScope::kModel};
}

std::string TernaryCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "clip_factor=" << options_.clip_factor
      << " scaler=" << (options_.rule == ScalerRule::kPaper ? "paper" : "original")
      << " sharing=" << text(options_.sharing)
      << " clip_scope=" << (options_.clip_scope == ClipScope::kShared ? "shared" : "local") << " scope="
      << (options_.scope == ScalerScope::kLayer   ? "layer"
          : options_.scope == ScalerScope::kBlock ? "block"
                                                  : "model");
  if (options_.scope == ScalerScope::kBlock) out << " block=" << options_.block_elements;
  out << " format=" << to_string(options_.format) << " workers=" << options_.num_workers;
  return out.str();
}

std::int64_t TernaryCodec::num_scalers(std::int64_t num_elements) const {
  return num_blocks(0, num_elements, kernel_block_elements());
}

Codec::ScalerRange TernaryCodec::scaler_range(const Slice& slice) const {
  const std::int64_t block = kernel_block_elements();
  return {block == 0 ? 0 : slice.first / block, num_blocks(slice.first, slice.count, block)};
}

std::uint8_t TernaryCodec::record_format(PayloadForm form) const {
  return static_cast<std::uint8_t>(form == PayloadForm::kLanes ? TernaryFormat::kLanes : options_.format);
}

std::int64_t TernaryCodec::max_payload_bytes(const Slice& slice, PayloadForm form) const {
  return payload_bytes(static_cast<TernaryFormat>(record_format(form)), slice.count, options_.num_workers);
}

std::unique_ptr<Encoder> TernaryCodec::make_encoder(const Layout& layout, std::vector<int> segments) const {
  return std::make_unique<TernaryEncoder>(*this, layout, segments);
}

void TernaryCodec::check(const EncodedSlice& encoded) const {
  const bool is_lanes = encoded.format == record_format(PayloadForm::kLanes) && traits().summable;
  if (encoded.format != record_format(PayloadForm::kNatural) && !is_lanes) {
    TERNGRAD_THROW(CommunicationError, "[ternary] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not this run's (", to_string(options_.format), ")");
  }
  check_payload(
      {static_cast<TernaryFormat>(encoded.format), encoded.payload, encoded.slice.count, options_.num_workers});
}

void TernaryCodec::aggregate(std::span<const AggregateJob> jobs, AggregateUnit unit, Stream& stream) const {
  if (options_.sharing != ScalerSharing::kNone) return aggregate_shared(jobs, unit, stream);
  TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[ternary] codes have no common unit without a shared scaler");
  for (const AggregateJob& job : jobs) aggregate_unshared(job, stream);
}

void TernaryCodec::aggregate_shared(std::span<const AggregateJob> jobs, AggregateUnit unit, Stream& stream) const {
  // Kept from call to call: a step allocates nothing once these have grown.
  static thread_local std::vector<CodeSumTask> tasks;
  static thread_local std::vector<const std::uint8_t*> payloads;
  static thread_local std::vector<std::int64_t> bytes;
  static thread_local std::vector<float> scales;
  std::size_t num_payloads = 0;
  std::size_t num_scales = 0;
  for (const AggregateJob& job : jobs) {
    num_payloads += job.messages.size();
    num_scales += job.messages[0].scalers.size();
  }
  tasks.resize(jobs.size());
  payloads.resize(num_payloads);
  bytes.resize(num_payloads);
  scales.resize(num_scales);
  std::size_t payload = 0;
  std::size_t scale = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const AggregateJob& job = jobs[j];
    const std::span<const float> scalers = job.messages[0].scalers;
    tasks[j] = {.format = static_cast<TernaryFormat>(job.messages[0].format),
                .payloads = {payloads.data() + payload, job.messages.size()},
                .payload_bytes = {bytes.data() + payload, job.messages.size()},
                .num_workers = options_.num_workers,
                .first = job.slice.first,
                .count = job.slice.count,
                .block_elements = kernel_block_elements(),
                .scales = scales.data() + scale,
                .out = job.out};
    for (const float s : scalers) {
      scales[scale++] = unit == AggregateUnit::kSums ? 1.0f : s / static_cast<float>(options_.num_workers);
    }
    for (const EncodedSlice& message : job.messages) {
      if (message.format != job.messages[0].format || message.scalers.size() != scalers.size() ||
          std::memcmp(message.scalers.data(), scalers.data(), scalers.size_bytes()) != 0) {
        TERNGRAD_THROW(CommunicationError, "[ternary] the workers' scalers of segment ", job.slice.segment,
                       " differ although they are shared");
      }
      payloads[payload] = message.payload.data();
      bytes[payload++] = static_cast<std::int64_t>(message.payload.size());
    }
  }
  aggregate_code_sums(tasks, stream);
}

void TernaryCodec::aggregate_unshared(const AggregateJob& job, Stream& stream) const {
  aggregate_tree(
      static_cast<int>(job.messages.size()), job.slice.count,
      [&](int worker, std::int64_t first, std::span<float> out) {
        const EncodedSlice& message = job.messages[static_cast<std::size_t>(worker)];
        std::array<std::int16_t, kChunkElements> codes;
        unpack_codes({static_cast<TernaryFormat>(message.format), message.payload, message.slice.count, 1}, first,
                     {codes.data(), out.size()});
        const std::int64_t block = kernel_block_elements();
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::int64_t position = job.slice.first + first + static_cast<std::int64_t>(i);
          const std::int64_t scaler = block == 0 ? 0 : position / block - job.slice.first / block;
          out[i] = message.scalers[static_cast<std::size_t>(scaler)] * static_cast<float>(codes[i]);
        }
      },
      1.0f / static_cast<float>(options_.num_workers), job.out, stream);
}

void TernaryCodec::decode(const EncodedSlice& encoded, std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == encoded.slice.count, "[ternary] out must hold ",
                   encoded.slice.count, " elements, holds ", out.size());
  std::vector<std::int16_t> codes(out.size());
  unpack_codes({static_cast<TernaryFormat>(encoded.format), encoded.payload, encoded.slice.count, options_.num_workers},
               0, codes);
  if (encoded.format == static_cast<std::uint8_t>(TernaryFormat::kLanes)) {
    // One worker's lane holds code + 1, from which unpacking takes the bias of a sum over all.
    for (std::int16_t& code : codes) code = static_cast<std::int16_t>(code + options_.num_workers - 1);
  }
  const std::int64_t block = kernel_block_elements();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t position = encoded.slice.first + static_cast<std::int64_t>(i);
    const std::int64_t scaler = block == 0 ? 0 : position / block - encoded.slice.first / block;
    out[i] = encoded.scalers[static_cast<std::size_t>(scaler)] * static_cast<float>(codes[i]);
  }
}

}  // namespace terngrad
