#include "compress/codecs/float_codecs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {
namespace {

using Width = FloatCodec::Width;

void write_elements(Width width, std::span<const float> values, std::uint8_t* payload, Stream& stream) {
  if (width == Width::kBfloat16) {
    encode_bfloat16(values, {reinterpret_cast<std::uint16_t*>(payload), values.size()}, stream);
    return;
  }
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), 65536,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(payload + 4 * begin, values.data() + begin, 4 * static_cast<std::size_t>(end - begin));
               });
}

void read_elements(Width width, const std::uint8_t* payload, std::int64_t first, std::span<float> out) {
  if (width == Width::kFloat32) {
    if (!out.empty()) std::memcpy(out.data(), payload + 4 * first, out.size_bytes());
    return;
  }
  const auto* values = reinterpret_cast<const std::uint16_t*>(payload) + first;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = from_bfloat16(values[i]);
}

class FloatEncoder final : public Encoder {
 public:
  FloatEncoder(Width width, std::vector<Slice> slices) : width_(width), plan_(std::move(slices)) {}

  void measure(const TensorTable& gradient, std::span<float> scalers, const DrawKey&, Stream& stream) override {
    TERNGRAD_REQUIRE(scalers.size() == plan_.slices().size(), "[float] need ", plan_.slices().size(), " scalers, have ",
                     scalers.size());
    nonfinite_flags(plan_, {&gradient, 1}, FloatCodec::first_nonfinite(width_), scalers, stream);
  }

  void encode(const TensorTable& gradient, std::span<EncodeJob> jobs, PayloadForm, const DrawKey&,
              Stream& stream) override {
    for (EncodeJob& job : jobs) {
      const std::int64_t bytes = job.slice.count * (width_ == Width::kFloat32 ? 4 : 2);
      job.payload_bytes = (bytes + 3) / 4 * 4;
      if (!job.local.empty() && std::isnan(job.local[0])) {
        std::memset(job.payload, 0, static_cast<std::size_t>(job.payload_bytes));
        continue;
      }
      write_elements(width_, as_float32(gradient, job.slice, stream), job.payload, stream);
      std::memset(job.payload + bytes, 0, static_cast<std::size_t>(job.payload_bytes - bytes));
    }
  }

 private:
  /// A slice's elements, widened if they are not float32.
  std::span<const float> as_float32(const TensorTable& gradient, const Slice& slice, Stream& stream) {
    const auto count = static_cast<std::size_t>(slice.count);
    if (gradient.type() == ElementType::kFloat32) return {gradient.slice(slice), count};
    if (widened_.size() < count) widened_.resize(count);
    widen(gradient.data(slice), gradient.type(), std::span(widened_).first(count), stream);
    return std::span<const float>(widened_).first(count);
  }

  Width width_;
  StatisticsPlan plan_;
  std::vector<float> widened_;  // kept from step to step
};

}  // namespace

FloatCodec::FloatCodec(Width width, int num_workers) : width_(width), num_workers_(num_workers) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[float] num_workers must be at least 1, got ", num_workers);
}

std::uint32_t FloatCodec::first_nonfinite(Width width) {
  // What rounds up to infinity is not finite on the wire.
  return width == Width::kBfloat16 ? 0x7f7f8000u : 0x7f800000u;
}

const std::string& FloatCodec::name() const {
  static const std::string fp32 = "fp32";
  static const std::string bf16 = "bf16";
  return width_ == Width::kFloat32 ? fp32 : bf16;
}

CodecTraits FloatCodec::traits() const {
  return {.bits_per_element = width_ == Width::kFloat32 ? 32.0 : 16.0,
          .fixed_size = true,
          .max_scaler = 0,
          .unbiased = width_ == Width::kFloat32,
          .wants_error_feedback = false,
          .summable = false,
          .sums_as_float = true};
}

std::string FloatCodec::options_text() const { return "workers=" + std::to_string(num_workers_); }

std::int64_t FloatCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return (slice.count * (width_ == Width::kFloat32 ? 4 : 2) + 3) / 4 * 4;
}

std::unique_ptr<Encoder> FloatCodec::make_encoder(const Layout& layout, std::vector<int> segments) const {
  std::vector<Slice> slices;
  for (const int index : segments) {
    const std::int64_t n = layout.segment(index).num_elements;
    if (n > 0) slices.push_back({index, 0, n});
  }
  return std::make_unique<FloatEncoder>(width_, std::move(slices));
}

void FloatCodec::check(const EncodedSlice& encoded) const {
  const std::int64_t expected = max_payload_bytes(encoded.slice, PayloadForm::kNatural);
  if (encoded.format != 0 || static_cast<std::int64_t>(encoded.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[", name(), "] payload of segment ", encoded.slice.segment, " has ",
                   encoded.payload.size(), " bytes in format ", static_cast<int>(encoded.format), ", expected ",
                   expected, " in format 0");
  }
  const std::size_t used = static_cast<std::size_t>(encoded.slice.count) * (width_ == Width::kFloat32 ? 4 : 2);
  const auto padding = encoded.payload.subspan(used);
  if (std::ranges::all_of(padding, [](std::uint8_t byte) { return byte == 0; })) return;
  TERNGRAD_THROW(CommunicationError, "[", name(), "] payload of segment ", encoded.slice.segment,
                 " is filled up with other bytes than zeros");
}

void FloatCodec::aggregate(std::span<const AggregateJob> jobs, AggregateUnit unit, Stream& stream) const {
  TERNGRAD_REQUIRE(unit != AggregateUnit::kSums, "[", name(), "] elements are not integer codes");
  const float scale = unit == AggregateUnit::kPartialSum ? 1.0f : 1.0f / static_cast<float>(num_workers_);
  for (const AggregateJob& job : jobs) {
    const Width width = job.workers.empty() ? width_ : Width::kFloat32;
    const DecodeLeaf leaf = [&](int message, std::int64_t first, std::span<float> out) {
      read_elements(width, job.messages[static_cast<std::size_t>(message)].payload.data(), first, out);
    };
    if (job.workers.empty()) {
      aggregate_tree(static_cast<int>(job.messages.size()), job.slice.count, leaf, scale, job.out, stream);
    } else {
      TERNGRAD_REQUIRE(job.workers.size() == job.messages.size(), "[", name(), "] ", job.messages.size(),
                       " sums, but numbers of workers for ", job.workers.size());
      aggregate_tree(job.workers, job.slice.count, leaf, scale, job.out, stream);
    }
  }
}

void FloatCodec::decode(const EncodedSlice& encoded, std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == encoded.slice.count, "[", name(), "] out must hold ",
                   encoded.slice.count, " elements, holds ", out.size());
  read_elements(width_, encoded.payload.data(), 0, out);
}

}  // namespace terngrad
