#include "compress/exchange/vendor_round.h"

#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/part_clock.h"
#include "compress/route/wire_bytes.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad {
namespace {

CoderSetup vendor_setup(const Layout& layout, const PartContext& context, std::vector<int> numbers) {
  return {.layout = layout,
          .workers = context.peers.group,
          .device = context.stream.device(),
          .numbers = std::move(numbers)};
}

ExchangeBytes bytes_of(const WorkerGroup& workers, std::int64_t num_bytes) {
  ExchangeBytes bytes;
  const WireNodes nodes(workers);
  nodes.count_nodes(bytes);
  nodes.add_all_reduce(bytes, &ExchangeBytes::gradient, num_bytes);
  return bytes;
}

}  // namespace

VendorRound::VendorRound(const Layout& layout, const PartContext& context, std::vector<int> numbers)
    : setup_(vendor_setup(layout, context, std::move(numbers))),
      type_(context.options.vendor_type.value()),
      peers_(context.peers),
      flags_(context.flags),
      sum_(layout.num_elements(), setup_.device),
      rounded_(type_ == ElementType::kFloat32 ? 0 : layout.num_elements(), setup_.device),
      travelling_{sum_.data(), layout.num_elements(), type_},
      summer_(setup_.device),
      writer_(FloatPayload::kFloat32, setup_.device),
      mean_check_(setup_, whole_bucket(layout)[0], max_mean(context.options.mean_factor)),
      bytes_(bytes_of(context.peers.group, layout.num_elements() * static_cast<std::int64_t>(element_bytes(type_)))) {
  if (type_ != ElementType::kFloat32) travelling_.values = rounded_.data();
  std::int64_t first = 0;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const std::int64_t count = layout.segment(segment).num_elements;
    if (count > 0) tensors_.push_back({segment, first, count});
    first += count;
  }
}

void VendorRound::add_local(std::span<const TensorTable> gradients, Stream& stream) {
  const ElementType type = gradients[0].type();
  for (const TensorTable& table : gradients) {
    TERNGRAD_REQUIRE(table.type() == type, "[vendor] the gradients of all local workers have one type, got ",
                     element_type_name(type), " and ", element_type_name(table.type()));
  }
  const bool widens = type == ElementType::kFloat16;
  while (widens && widened_.size() < gradients.size()) widened_.emplace_back(sum_.num_elements(), setup_.device);
  std::vector<MeanLeaf> leaves;
  leaves.reserve(tensors_.size() * gradients.size());
  std::vector<MeanTask> tasks;
  tasks.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    const std::size_t begin = leaves.size();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const void* values = gradients[worker].data(tensor.segment);
      if (widens) {
        float* const wide = widened_[worker].data() + tensor.first;
        widen(values, type, {wide, static_cast<std::size_t>(tensor.count)}, stream);
        values = wide;
      }
      const std::size_t bytes = element_bytes(widens ? ElementType::kFloat32 : type);
      leaves.push_back(
          {.payload = {static_cast<const std::uint8_t*>(values), static_cast<std::size_t>(tensor.count) * bytes}});
    }
    tasks.push_back({.format = type == ElementType::kBfloat16 ? LeafFormat::kBfloat16 : LeafFormat::kFloat32,
                     .workers = {leaves.data() + begin, gradients.size()},
                     .count = tensor.count,
                     .scale = 1.0f / static_cast<float>(setup_.workers.num_workers),
                     .out = sum_.data() + tensor.first});
  }
  summer_.run(tasks, stream);
  if (type_ == ElementType::kBfloat16) encode_bfloat16(sum_.span(), rounded_.span(), stream);
  if (type_ == ElementType::kFloat16) encode_float16(sum_.span(), rounded_.span(), stream);
}

void VendorRound::write_mean(const TensorTable& mean, Stream& stream) {
  std::vector<FloatPayloadTask> tasks;
  tasks.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    tasks.push_back({.values = element_at(travelling_.values, type_, tensor.first),
                     .count = tensor.count,
                     .payload = mean.tensor(tensor.segment),
                     .type = type_});
  }
  writer_.run(tasks, stream);
  mean_check_.submit(
      mean, {.report = flags_.means(), .skip = flags_.skip_flag(), .stop_latched = flags_.stop_latched()}, stream);
}

void VendorRound::add_ranks(Stream& stream) {
  if (peers_.device != nullptr) {
    peers_.device->vendor_sum(travelling_, stream);
  } else {
    peers_.group.communicator->vendor_sum(travelling_);
  }
}

void VendorRound::run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& /*step*/,
                      Stream& stream, PartClock& clock) {
  require_tables(gradients, mean, setup_.workers);
  last_.clear();
  clock.start(stream);
  add_local(gradients, stream);
  clock.lap(&ExchangeReport::encode_seconds, stream);
  add_ranks(stream);
  clock.lap(&ExchangeReport::wire_seconds, stream);
  write_mean(mean, stream);
  clock.lap(&ExchangeReport::decode_seconds, stream);
  last_.assign(gradients.begin(), gradients.end());
}

float VendorRound::decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) {
  require_decodable(setup_.layout, setup_.workers, local_worker, segment, out);
  TERNGRAD_REQUIRE(!last_.empty() && !flags_.is_dropped(stream), "[exchange] the last step sent nothing of tensor ",
                   segment);
  const TensorTable& table = last_[static_cast<std::size_t>(local_worker)];
  std::vector<std::uint8_t> elements(out.size() * element_bytes(table.type()));
  copy<std::uint8_t>({static_cast<const std::uint8_t*>(table.data(segment)), elements.size()}, std::span(elements),
                     stream);
  stream.synchronize();
  Stream host(Device::cpu(), 1);
  widen(elements.data(), table.type(), out, host);
  if (type_ == ElementType::kBfloat16) round_to_bfloat16(out, host);
  if (type_ == ElementType::kFloat16) round_to_float16(out, host);
  return 0;
}

}  // namespace terngrad
