// DeviceDownlink: encoding of the aggregated mean for its way back to the workers, in GPU memory.
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

/// Downlink for means in device memory, with the same bits. Either every rank has aggregated the whole mean and applies
/// the downlink codec to it; or each rank has aggregated its own shards (scatter_reduce), which are then sent as
/// payloads of fixed size, without headers and without scalers, which every rank has. The host takes no part, and with
/// the previous step's table nothing is allocated (except for tmask, for which the host waits).
class DeviceDownlink {
 public:
  struct Options {
    DownlinkCodec codec = DownlinkCodec::kFloat32;
    std::vector<WorkerRange> ranks;  // worker range of each rank
    int rank = 0;                    // index of this rank
    ShardOwners owners = ShardOwners::kWorkers;
    bool travels = false;  // true if each rank has aggregated its own shards only
  };
  /// @param coders  one per group of the plan; they and the plan must outlive this
  /// @throws InvalidArgument as DownlinkForms does
  DeviceDownlink(const CoderSetup& setup, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                 const Options& options);

  /// True if submit needs integer sums of a group's codes, as float32, in place of their mean.
  bool wants_sums(std::size_t group) const { return sums_.at(group) != nullptr; }

  /// Timers of the transfers between ranks.
  struct Times {
    StreamTimer max, means;
    explicit Times(const Device& device) : max(device), means(device) {}
  };
  /// Turns the aggregated values into the mean that all ranks get, in place.
  /// @param times  optional timers
  void submit(const TensorTable& mean, const DeviceStep& step, DeviceCommunicator& communicator, Stream& stream,
              Times* times);
  /// Adds the bytes per step, as ExchangeReport counts them.
  void add_bytes(ExchangeBytes& report) const;

 private:
  /// Group whose codes are aggregated to integer sums.
  struct Sums {
    SumForm form;
    const Coder& coder;
    // For downlink codec sums:
    std::unique_ptr<SumPacker> packer = nullptr;
    std::vector<SumPackTask> pack_tasks = {};
    // For downlink codec ternary, and for votes, which have max 1 and are packed without draws:
    std::unique_ptr<StatisticsPlan> pieces = nullptr;  // runs of this rank's sums that share a scaler
    std::size_t first_piece = 0;                       // scaler index of the first piece; the other pieces follow
    Buffer<float> max = {};                            // [num_scalers] m = max|k|
    Buffer<float> factors = {};                        // [num_scalers] fl(fl(s / fl(L N)) * m)
    std::unique_ptr<Ternarizer> ternarizer = nullptr;
    std::vector<TernarizeTask> draw_tasks = {};
  };

  std::size_t group_of(const Slice& slice) const { return static_cast<std::size_t>(plan_.group_of(slice.segment)); }
  std::int64_t bytes_of(const Slice& slice) const;
  void plan_pieces(Sums& sums, std::size_t group);
  /// For votes, which travel as codes with downlink codec sums, too.
  void plan_votes(Sums& sums);
  void measure(const TensorTable& mean, DeviceCommunicator& communicator, Stream& stream, StreamTimer* timer);
  /// Writes the payloads of this rank's shards.
  void encode(const TensorTable& mean, const DeviceStep& step, Stream& stream);
  TernarizeTask draw_task(const MeanPart& part, const TensorTable& mean) const;
  /// Reads the payloads of all shards.
  void decode(const TensorTable& mean, Stream& stream);
  CodeSumTask code_task(std::size_t part, const TensorTable& mean) const;
  void round_all(const TensorTable& mean, Stream& stream);

  CoderSetup setup_;
  const CodecPlan& plan_;
  Options options_;
  DownlinkForms forms_;
  std::vector<std::unique_ptr<Sums>> sums_;  // per group; null if the group is aggregated to the mean
  std::unique_ptr<DownlinkPayloads> shards_;
  FloatPacker float32_, bfloat16_, rounded_;
  TreeSummer floats_;  // decodes float payloads, as sums of one leaf
  CodeSummer codes_;
  std::vector<FloatPayloadTask> float32_tasks_, bfloat16_tasks_;
  std::vector<std::int64_t> bytes_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<const std::uint8_t*> pointers_;  // one per part
  std::vector<CodeSumTask> sum_tasks_;
};

}  // namespace terngrad
