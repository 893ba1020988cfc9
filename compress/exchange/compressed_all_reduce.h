// CompressedAllReduce: the mean of all workers' gradients, exchanged in encoded form.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/memory/factor_state.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/device.h"

namespace terngrad {

class Round;
enum class MemoryUpdate;
struct DeviceStep;

/// Exchanges the gradients of all tensors in one Round. The mean has the same bits for every algorithm and any number
/// of processes (contract B2).
class CompressedAllReduce final : public GradientExchange {
 public:
  /// @param peers   the workers and what connects them: a WorkerGroup for gradients in host memory, or the workers of
  ///                this rank and a DeviceCommunicator for gradients in the memory of the stream's device
  /// @param stream  of the gradients' memory; default: the CPU with options.num_threads threads
  /// @throws InvalidArgument for unsupported combinations, as Round does; low-rank tensors are supported by
  /// BucketedAllReduce
  CompressedAllReduce(const Layout& layout, const ExchangePeers& peers, const CompressedAllReduceOptions& options);
  CompressedAllReduce(const Layout& layout, const ExchangePeers& peers, const CompressedAllReduceOptions& options,
                      const Stream& stream);
  /// Uses an existing plan, made for all workers; options.codecs is ignored.
  CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                      const CompressedAllReduceOptions& options);
  CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                      const CompressedAllReduceOptions& options, const Stream& stream);
  ~CompressedAllReduce() override;

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;

  /// On a GPU, submits the exchange of one step to the stream, without waiting unless a codec goes through the host.
  /// After a first run with the same tables it can be captured into a graph.
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);
  /// [1] on the device, for StepScalars::skip: nonzero if the step is to be dropped because a gradient or mean was not
  /// finite. On a GPU, with OnNonfinite::kStop it then stays nonzero.
  const std::uint32_t* skip() const { return flags_.skip(); }
  /// Waits for the stream and returns the report of the last submitted step: bytes and non-finite tensors, no times.
  /// @throws NonFiniteError with OnNonfinite::kStop if any step since the first held NaN or infinity
  ExchangeReport report(std::uint64_t step);
  /// Submits the start of a new run: clears the non-finite state of earlier steps.
  void forget_nonfinite() { flags_.forget(stream_); }
  /// PartExchange::update_memory.
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     Stream& stream);

  const Round& round() const { return *round_; }
  const CodecPlan& plan() const;
  const Layout& layout() const;
  Stream& stream() { return stream_; }
  /// The algorithm in use, kAuto resolved.
  ExchangeAlgorithm algorithm() const;

 private:
  OnNonfinite policy_;
  int num_workers_;
  Stream stream_;
  NonfiniteFlags flags_;
  FactorState factors_;  // empty: there are no low-rank tensors
  std::unique_ptr<Round> round_;
};

}  // namespace terngrad
