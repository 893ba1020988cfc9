#include "compress/codecs/powersgd_codec.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "compress/codec/host_coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

FactorSizes sizes_of(const PowerSgdOptions& options, std::int64_t num_elements) {
  return factor_sizes(num_elements, options.columns, options.rank);
}

/// Elements of P Q^T. Widens only the rows of P that are needed and, for a single row, the needed rows of Q.
void decode_bfloat16_factors(const std::uint16_t* factors, const FactorSizes& sizes, std::int64_t first,
                             std::span<float> out) {
  if (out.empty()) return;
  const std::int64_t last = first + static_cast<std::int64_t>(out.size()) - 1;
  const std::int64_t row = first / sizes.columns;
  const std::int64_t num_rows = last / sizes.columns - row + 1;
  const std::int64_t column = num_rows == 1 ? first % sizes.columns : 0;
  const std::int64_t num_columns = num_rows == 1 ? last - first + 1 : sizes.columns;
  std::vector<float> widened(static_cast<std::size_t>(sizes.rank * (num_rows + num_columns)));
  float* const p = widened.data();
  float* const q = p + sizes.rank * num_rows;
  Stream stream;
  for (std::int64_t j = 0; j < sizes.rank; ++j) {
    decode_bfloat16({factors + j * sizes.rows + row, static_cast<std::size_t>(num_rows)},
                    {p + j * num_rows, static_cast<std::size_t>(num_rows)}, stream);
    decode_bfloat16(
        {factors + sizes.rank * sizes.rows + j * sizes.columns + column, static_cast<std::size_t>(num_columns)},
        {q + j * num_columns, static_cast<std::size_t>(num_columns)}, stream);
  }
  low_rank_elements(p, num_rows, q, num_columns, sizes.rank, num_rows == 1 ? 0 : first - row * sizes.columns, out);
}

class PowerSgdCoder final : public HostCoder {
 public:
  PowerSgdCoder(const PowerSgdCodec& codec, const CoderSetup& setup, const std::vector<int>& segments,
                PayloadSlots& slots)
      : HostCoder(codec, setup, segments, slots),
        codec_(codec),
        plan_(statistics_slices(setup.layout, segments, /*block_elements=*/0)) {}

 private:
  void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) override {
    nonfinite_flags(plan_, {&gradient, 1}, kInfinity, row, stream);
  }

  std::int64_t encode_slice(const EncodeTask& task, Stream& stream) override {
    const Slice& slice = task.slice;
    const std::int64_t bytes = codec_.max_payload_bytes(slice, PayloadForm::kNatural);
    if (!task.is_finite) {
      std::memset(task.payload, 0, static_cast<std::size_t>(bytes));
      return bytes;
    }
    values_.resize(static_cast<std::size_t>(slice.count));
    widen(task.gradient.data(slice), task.gradient.type(), values_, stream);
    if (!codec_.takes(slice.count)) {
      std::memcpy(task.payload, values_.data(), static_cast<std::size_t>(bytes));
      return bytes;
    }
    const FactorSizes sizes = sizes_of(codec_.options(), slice.count);
    const Matrix m{values_.data(), sizes.rows, sizes.columns};
    const bool rounds = codec_.options().factors == ElementType::kBfloat16;
    factors_.resize(static_cast<std::size_t>(sizes.rank * (sizes.rows + sizes.columns)));
    const std::span<float> all = factors_;
    const std::span<float> all_p = all.first(static_cast<std::size_t>(sizes.rank * sizes.rows));
    float* const p = all_p.data();
    float* const q = p + all_p.size();
    const DrawKey key{task.key.seed, task.key.step, 0, DrawPurpose::kFactorInit};
    const std::int64_t draw_offset = setup().layout.segment(slice.segment).draw_offset;
    draw_factor(key, static_cast<std::uint64_t>(draw_offset),
                {q, static_cast<std::size_t>(sizes.rank * sizes.columns)});
    const FactorTask factors{.m = m, .rank = sizes.rank, .p = p, .q = q};
    products_.times_columns({&factors, 1}, stream);
    if (rounds) round_to_bfloat16(all_p, stream);
    products_.orthonormalize({&factors, 1}, stream);
    if (rounds) round_to_bfloat16(all_p, stream);
    products_.times_rows({&factors, 1}, stream);
    if (!rounds) {
      std::memcpy(task.payload, all.data(), all.size_bytes());
      return bytes;
    }
    std::memset(task.payload + bytes - 4, 0, 4);  // padding, if there is any
    encode_bfloat16(all, {reinterpret_cast<std::uint16_t*>(task.payload), all.size()}, stream);
    return bytes;
  }

  const PowerSgdCodec& codec_;
  StatisticsPlan plan_;
  LowRankProducts products_;
  std::vector<float> values_, factors_;
};

}  // namespace

PowerSgdCodec::PowerSgdCodec(const PowerSgdOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(options.rank >= 1 && options.rank <= kMaxRank, "[powersgd] rank must be from 1 to ", kMaxRank,
                   ", got ", options.rank);
  TERNGRAD_REQUIRE(options.min_ratio >= 1, "[powersgd] min_ratio must be at least 1, got ", options.min_ratio);
  TERNGRAD_REQUIRE(options.columns >= 0, "[powersgd] columns must be at least 0, got ", options.columns);
  TERNGRAD_REQUIRE(options.factors != ElementType::kFloat16, "[powersgd] factors are of fp32 or bf16");
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[powersgd] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& PowerSgdCodec::name() const {
  static const std::string name = "powersgd";
  return name;
}

CodecTraits PowerSgdCodec::traits() const {
  return {.bits_per_element = 32,
          .fixed_size = false,
          .max_scaler = 0,
          .unbiased = false,
          .wants_error_feedback = true,
          .columns = options_.columns,
          .grain_elements = CodecTraits::kWholeTensors,
          .self_delimiting = true};
}

std::string PowerSgdCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "rank=" << options_.rank << " min_ratio=" << options_.min_ratio
      << " warm_start=" << (options_.warm_start ? "true" : "false");
  // fp32, once the only type, is omitted, so that fingerprints of older messages and runs stay valid.
  if (options_.factors != ElementType::kFloat32) out << " factors=" << element_type_name(options_.factors);
  out << " workers=" << options_.num_workers;
  return out.str();
}

bool PowerSgdCodec::takes(std::int64_t num_elements) const {
  if (options_.columns == 0 || num_elements == 0 || num_elements % options_.columns != 0) return false;
  const FactorSizes sizes = sizes_of(options_, num_elements);
  return options_.min_ratio * static_cast<double>(sizes.rank) * static_cast<double>(sizes.rows + sizes.columns) <
         static_cast<double>(num_elements);
}

std::int64_t PowerSgdCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  if (!takes(slice.count)) return 4 * slice.count;
  const FactorSizes sizes = sizes_of(options_, slice.count);
  const std::int64_t num_factors = sizes.rank * (sizes.rows + sizes.columns);
  return (num_factors * static_cast<std::int64_t>(element_bytes(options_.factors)) + 3) / 4 * 4;
}

std::unique_ptr<Coder> PowerSgdCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                 PayloadSlots& slots) const {
  return std::make_unique<PowerSgdCoder>(*this, setup, segments, slots);
}

void PowerSgdCodec::check(const EncodedSlice& encoded) const {
  const std::int64_t expected = max_payload_bytes(encoded.slice, PayloadForm::kNatural);
  const int format = record_format(PayloadForm::kNatural);
  if (encoded.format == format && static_cast<std::int64_t>(encoded.payload.size()) == expected) {
    // Checks the padding of bf16 to 4 bytes.
    if (!takes(encoded.slice.count) || options_.factors == ElementType::kFloat32) return;
    const FactorSizes sizes = sizes_of(options_, encoded.slice.count);
    if (sizes.rank * (sizes.rows + sizes.columns) % 2 == 0) return;
    if (std::ranges::all_of(encoded.payload.last(2), [](std::uint8_t byte) { return byte == 0; })) return;
    TERNGRAD_THROW(CommunicationError, "[powersgd] the payload of segment ", encoded.slice.segment,
                   " is not filled up with zeros");
  }
  TERNGRAD_THROW(CommunicationError, "[powersgd] segment ", encoded.slice.segment, " has ", encoded.payload.size(),
                 " bytes in format ", static_cast<int>(encoded.format), ", expected ", expected, " in format ", format);
}

void PowerSgdCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const auto* const values = reinterpret_cast<const float*>(encoded.payload.data());
  if (!takes(encoded.slice.count)) {
    std::copy_n(values + first, out.size(), out.data());
    return;
  }
  const FactorSizes sizes = sizes_of(options_, encoded.slice.count);
  if (options_.factors == ElementType::kFloat32) {
    low_rank_elements(values, sizes.rows, values + sizes.rank * sizes.rows, sizes.columns, sizes.rank, first, out);
  } else {
    decode_bfloat16_factors(reinterpret_cast<const std::uint16_t*>(values), sizes, first, out);
  }
}

PowerSgdOptions read_powersgd_options(SpecReader& reader) {
  PowerSgdOptions o;
  o.rank = static_cast<int>(reader.integer("rank", o.rank, 1, kMaxRank, "columns of a factor"));
  o.min_ratio = reader.number("min_ratio", o.min_ratio, 1, 1e9,
                              "tensors whose factors are not smaller by more than this travel as fp32");
  o.factors = reader.choice("factors", o.factors, {{"fp32", ElementType::kFloat32}, {"bf16", ElementType::kBfloat16}},
                            "how the factors travel");
  o.warm_start = reader.flag("warm_start", o.warm_start, "begin with the factor of the last step, else a drawn one");
  return o;
}

}  // namespace terngrad
