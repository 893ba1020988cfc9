#include "compress/codecs/powersgd_codec.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "compress/coding/host_coder.h"
#include "compress/coding/scaled_runs.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

FactorSizes sizes_of(const PowerSgdOptions& options, std::int64_t num_elements) {
  return factor_sizes(num_elements, options.columns, options.rank);
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
    auto* const out = reinterpret_cast<float*>(task.payload);
    if (!codec_.takes(slice.count)) {
      std::ranges::copy(values_, out);
      return bytes;
    }
    const FactorSizes sizes = sizes_of(codec_.options(), slice.count);
    const Matrix m{values_.data(), sizes.rows, sizes.columns};
    float* const p = out;
    float* const q = out + sizes.rank * sizes.rows;
    const DrawKey key{task.key.seed, task.key.step, 0, DrawPurpose::kFactorInit};
    const std::int64_t draw_offset = setup().layout.segment(slice.segment).draw_offset;
    draw_factor(key, static_cast<std::uint64_t>(draw_offset),
                {q, static_cast<std::size_t>(sizes.rank * sizes.columns)});
    products_.times_columns(m, q, sizes.rank, p, stream);
    LowRankProducts::orthonormalize(p, sizes.rows, sizes.rank);
    products_.times_rows(m, p, sizes.rank, q, stream);
    return bytes;
  }

  const PowerSgdCodec& codec_;
  StatisticsPlan plan_;
  LowRankProducts products_;
  std::vector<float> values_;
};

}  // namespace

PowerSgdCodec::PowerSgdCodec(const PowerSgdOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(options.rank >= 1 && options.rank <= kMaxRank, "[powersgd] rank must be from 1 to ", kMaxRank,
                   ", got ", options.rank);
  TERNGRAD_REQUIRE(options.min_ratio >= 1, "[powersgd] min_ratio must be at least 1, got ", options.min_ratio);
  TERNGRAD_REQUIRE(options.columns >= 0, "[powersgd] columns must be at least 0, got ", options.columns);
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
      << " warm_start=" << (options_.warm_start ? "true" : "false") << " workers=" << options_.num_workers;
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
  return std::int64_t{4} * sizes.rank * (sizes.rows + sizes.columns);
}

std::unique_ptr<Coder> PowerSgdCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                 PayloadSlots& slots) const {
  return std::make_unique<PowerSgdCoder>(*this, setup, segments, slots);
}

void PowerSgdCodec::check(const EncodedSlice& encoded) const {
  const std::int64_t expected = max_payload_bytes(encoded.slice, PayloadForm::kNatural);
  const int format = record_format(PayloadForm::kNatural);
  if (encoded.format == format && static_cast<std::int64_t>(encoded.payload.size()) == expected) return;
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
  low_rank_elements(values, sizes.rows, values + sizes.rank * sizes.rows, sizes.columns, sizes.rank, first, out);
}

PowerSgdOptions read_powersgd_options(SpecReader& reader) {
  PowerSgdOptions o;
  o.rank = static_cast<int>(reader.integer("rank", o.rank, 1, kMaxRank, "columns of a factor"));
  o.min_ratio = reader.number("min_ratio", o.min_ratio, 1, 1e9,
                              "tensors whose factors are not smaller by more than this travel as fp32");
  o.warm_start = reader.flag("warm_start", o.warm_start, "begin with the factor of the last step, else a drawn one");
  return o;
}

}  // namespace terngrad
