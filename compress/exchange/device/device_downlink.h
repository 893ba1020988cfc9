// DeviceDownlink: what the mean goes through on its way back to the workers, in a GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/device_communicator.h"
#include "compress/exchange/device/downlink_payloads.h"
#include "compress/exchange/downlink_forms.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/plan/codec_plan.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/float_payload.h"
#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/stream_timer.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// @throws InvalidArgument for a downlink codec without kernels
void require_device_downlink(DownlinkCodec codec);

/// Downlink's forms of the mean, with its bits, for means in device memory. Either every rank has aggregated all of
/// the mean, and each does to it what the downlink codec asks for; or each has aggregated the shards that it owns
/// (scatter_reduce), which then travel: as payloads of fixed size, without headers, and without scalers, which every
/// rank has. The host takes no part; with the table of the step before nothing is allocated (except for tmask, for
/// which the host waits).
class DeviceDownlink {
 public:
  struct Options {
    DownlinkCodec codec = DownlinkCodec::kFloat32;
    std::vector<WorkerRange> ranks;  // the workers of each rank
    int rank = 0;                    // which of them this is
    ShardOwners owners = ShardOwners::kWorkers;
    bool travels = false;  // whether each rank has aggregated its shards, in place of everything
  };
  /// @param coders  one per group of the plan; they and the plan must outlive the leg
  /// @throws InvalidArgument as DownlinkForms does
  DeviceDownlink(const CoderSetup& setup, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                 const Options& options);

  /// Whether submit wants integer sums of a group's codes, as float32, in place of their mean.
  bool wants_sums(std::size_t group) const { return sums_.at(group) != nullptr; }

  /// Time on the way between ranks.
  struct Times {
    StreamTimer max, means;
    explicit Times(const Device& device) : max(device), means(device) {}
  };
  /// Makes the mean, as all ranks get it, of what has been aggregated, in place.
  /// @param times  null, or what takes the time
  void submit(const TensorTable& mean, const DeviceStep& step, DeviceCommunicator& communicator, Stream& stream,
              Times* times);
  /// Adds the bytes of every step, as ExchangeReport counts them.
  void add_bytes(ExchangeBytes& report) const;

 private:
  /// A group whose codes are aggregated to integer sums.
  struct Sums {
    SumForm form;
    const Coder& coder;
    // Of downlink codec sums:
    std::unique_ptr<SumPacker> packer = nullptr;
    std::vector<SumPackTask> pack_tasks = {};
    // Of downlink codec ternary; of votes max is 1, and they are not drawn but packed:
    std::unique_ptr<StatisticsPlan> pieces = nullptr;  // the runs of this rank's sums that share a scaler
    std::size_t first_piece = 0;                       // whose scaler this is; the others' follow
    Buffer<float> max = {};                            // [num_scalers] m = max|k|
    Buffer<float> factors = {};                        // [num_scalers] fl(fl(s / fl(L N)) * m)
    std::unique_ptr<Ternarizer> ternarizer = nullptr;
    std::vector<TernarizeTask> draw_tasks = {};
  };

  std::size_t group_of(const Slice& slice) const { return static_cast<std::size_t>(plan_.group_of(slice.segment)); }
  std::int64_t bytes_of(const Slice& slice) const;
  void plan_pieces(Sums& sums, std::size_t group);
  /// Votes travel as codes with downlink codec sums, too.
  void plan_votes(Sums& sums);
  void measure(const TensorTable& mean, DeviceCommunicator& communicator, Stream& stream, StreamTimer* timer);
  /// Writes the payloads of this rank's parts.
  void encode(const TensorTable& mean, const DeviceStep& step, Stream& stream);
  TernarizeTask draw_task(const MeanPart& part, const TensorTable& mean) const;
  /// Reads the payloads of all parts.
  void decode(const TensorTable& mean, Stream& stream);
  CodeSumTask code_task(std::size_t part, const TensorTable& mean) const;
  void round_all(const TensorTable& mean, Stream& stream);

  CoderSetup setup_;
  const CodecPlan& plan_;
  Options options_;
  DownlinkForms forms_;
  std::vector<std::unique_ptr<Sums>> sums_;  // by group; null where means are aggregated
  std::unique_ptr<DownlinkPayloads> shards_;
  FloatPacker float32_, bfloat16_, rounded_;
  TreeSummer floats_;  // of one payload each: reads numbers
  CodeSummer codes_;
  std::vector<FloatPayloadTask> float32_tasks_, bfloat16_tasks_;
  std::vector<std::int64_t> bytes_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<const std::uint8_t*> pointers_;  // of each part
  std::vector<CodeSumTask> sum_tasks_;
};

}  // namespace terngrad
