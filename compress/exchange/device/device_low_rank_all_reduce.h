// DeviceLowRankAllReduce: LowRankAllReduce for gradients in GPU memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/device/device_all_reduce.h"
#include "compress/exchange/mean_check.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/device/device_part_exchange.h"
#include "compress/memory/factor_rounds.h"

namespace terngrad {

/// The two rounds of LowRankAllReduce as two DeviceAllReduce, with the same bits (contract B2). The second round is
/// submitted even if a gradient of the first was not finite, since the host does not know; such a step changes no
/// state.
class DeviceLowRankAllReduce final : public DevicePartExchange {
 public:
  /// @throws InvalidArgument as DeviceAllReduce
  DeviceLowRankAllReduce(const Layout& layout, const CodecPlan& plan, const DevicePartContext& context,
                         std::vector<int> numbers);

  void submit_part(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                   Stream& stream) override;
  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                               std::uint64_t step) override;
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     Stream& stream) override;
  void commit(Stream& stream) override { factors_.commit(nonfinite_->skip(), stream); }
  ExchangeReport bytes() const override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  std::vector<std::string> codecs_through_host() const override { return first_->codecs_through_host(); }

 private:
  void write_mean(const TensorTable& mean, Stream& stream);

  Layout layout_;
  std::uint64_t seed_;
  int num_local_workers_;
  Stream stream_;
  std::shared_ptr<NonfiniteFlags> nonfinite_;
  FactorRounds factors_;
  std::unique_ptr<DeviceAllReduce> first_, second_;
  std::unique_ptr<MeanCheck> mean_check_;  // for low-rank tensors
  bool has_sent_ = false;                        // at least one step was submitted
};

}  // namespace terngrad
