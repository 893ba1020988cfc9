#include "compress/exchange/vendor_all_reduce.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "compress/exchange/overflow.h"
#include "compress/route/wire_bytes.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad {

std::vector<std::string> vendor_codec_names() { return {"fp32", "bf16", "fp16"}; }

ElementType vendor_element_type(const std::string& codec) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    if (codec == element_type_name(type)) return type;
  }
  TERNGRAD_THROW(InvalidArgument, "[vendor] adds fp32, bf16 or fp16, got '", codec, "'");
}

VendorAllReduce::VendorAllReduce(const Layout& layout, WorkerGroup workers, const VendorAllReduceOptions& options)
    : layout_(layout),
      workers_(std::move(workers)),
      options_(options),
      stream_(Device::cpu(), options.num_threads),
      sum_(layout_.num_elements()),
      rounded_(options.type == ElementType::kFloat32 ? 0 : layout_.num_elements()) {
  TERNGRAD_REQUIRE(options.on_nonfinite != OnNonfinite::kZero,
                   "[vendor] on_nonfinite zero: a sum does not tell whose tensor was not finite; accepted: stop, skip");
}

void VendorAllReduce::add_local(std::span<const TensorTable> gradients) {
  const float scale = 1.0f / static_cast<float>(workers_.num_workers);
  float* out = sum_.data();
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    const std::int64_t count = layout_.segment(segment).num_elements;
    const auto leaf = [&](int worker, std::int64_t first, std::span<float> values) {
      const TensorTable& table = gradients[static_cast<std::size_t>(worker)];
      Stream one(Device::cpu(), 1);
      widen(element_at(table.data(segment), table.type(), first), table.type(), values, one);
    };
    if (count > 0) aggregate_tree(static_cast<int>(gradients.size()), count, leaf, scale, out, stream_);
    out += count;
  }
}

void VendorAllReduce::travel(ExchangeReport& report) {
  auto begin = std::chrono::steady_clock::now();
  const bool is_bfloat16 = options_.type == ElementType::kBfloat16;
  FloatSpan values{sum_.data(), sum_.num_elements(), ElementType::kFloat32};
  if (options_.type != ElementType::kFloat32) {
    (is_bfloat16 ? encode_bfloat16 : encode_float16)(sum_.span(), rounded_.span(), stream_);
    values = {rounded_.data(), rounded_.num_elements(), options_.type};
  }
  report.encode_seconds += lap_seconds(begin);
  workers_.communicator->vendor_sum(values);
  report.wire_seconds += lap_seconds(begin);
  if (options_.type != ElementType::kFloat32) {
    (is_bfloat16 ? decode_bfloat16 : decode_float16)(rounded_.span(), sum_.span(), stream_);
  }
  report.decode_seconds += lap_seconds(begin);
  const WireNodes nodes(workers_);
  nodes.count_nodes(report);
  nodes.add_all_reduce(report, &ExchangeBytes::gradient,
                       values.count * static_cast<std::int64_t>(element_bytes(values.type)));
}

void VendorAllReduce::finish(const TensorTable& mean, std::uint64_t step, ExchangeReport& report) {
  const float* next = sum_.data();
  const float max = max_mean(options_.mean_factor);
  std::string first;
  int num_nonfinite = 0;
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    const auto count = static_cast<std::size_t>(layout_.segment(segment).num_elements);
    const std::span<const float> values(next, count);
    next += count;
    std::ranges::copy(values, mean.tensor(segment));
    if (are_within(values, max, stream_)) continue;
    if (num_nonfinite++ == 0) first = layout_.segment(segment).name;
  }
  if (num_nonfinite == 0) return;
  report.nonfinite = "step " + std::to_string(step) + ": the mean of tensor '" + first +
                     "' is NaN or overflows to infinity" +
                     (num_nonfinite > 1 ? " (and " + std::to_string(num_nonfinite - 1) + " more)" : "");
  if (options_.on_nonfinite == OnNonfinite::kStop) throw NonFiniteError(report.nonfinite);
  report.skipped = true;
}

ExchangeReport VendorAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         std::uint64_t step) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == workers_.num_local_workers, "[vendor] this process has ",
                   workers_.num_local_workers, " workers, got ", gradients.size(), " gradients");
  TERNGRAD_REQUIRE(mean.type() == ElementType::kFloat32, "[vendor] the mean is written as fp32, got a table of ",
                   element_type_name(mean.type()));
  ExchangeReport report;
  last_.clear();
  auto begin = std::chrono::steady_clock::now();
  add_local(gradients);
  report.encode_seconds += lap_seconds(begin);
  travel(report);
  begin = std::chrono::steady_clock::now();
  finish(mean, step, report);
  report.decode_seconds += lap_seconds(begin);
  if (!report.skipped) last_.assign(gradients.begin(), gradients.end());
  return report;
}

float VendorAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < static_cast<int>(last_.size()), "[vendor] no local worker ",
                   local_worker, ", or no step that was not skipped");
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[vendor] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements, "[vendor] tensor '",
                   layout_.segment(segment).name, "' has ", layout_.segment(segment).num_elements,
                   " elements, out holds ", out.size());
  const TensorTable& table = last_[static_cast<std::size_t>(local_worker)];
  widen(table.data(segment), table.type(), out, stream_);
  if (options_.type == ElementType::kBfloat16) round_to_bfloat16(out, stream_);
  if (options_.type == ElementType::kFloat16) round_to_float16(out, stream_);
  return 0;
}

}  // namespace terngrad
