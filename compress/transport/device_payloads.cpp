#include "compress/transport/device_payloads.h"

#include "compress/route/codec_shards.h"
#include "compress/route/wire_bytes.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

/// Alignment of payloads: four float32, which kernels load and store at once.
constexpr std::int64_t kPlaceBytes = 16;

std::vector<bool> served_groups(const DevicePayloadsSetup& setup) {
  std::vector<bool> serves;
  for (const CodecPlan::Group& group : setup.plan.groups()) serves.push_back(setup.serves(*group.codec));
  return serves;
}

/// Zeroed, since the padding between payloads is sent with them.
Buffer<std::uint64_t> zeroed_bytes(std::int64_t bytes, const Device& device) {
  Buffer<std::uint64_t> buffer(bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)), device);
  Stream stream(device);
  fill_zero(buffer.span(), stream);
  stream.synchronize();
  return buffer;
}

std::uint8_t* bytes_of(Buffer<std::uint64_t>& buffer) { return reinterpret_cast<std::uint8_t*>(buffer.data()); }

/// Start of each of `count` rows.
std::vector<std::uint8_t*> rows_of(std::uint8_t* first, std::int64_t count, std::int64_t row_bytes) {
  std::vector<std::uint8_t*> rows;
  for (std::int64_t row = 0; row < count; ++row) rows.push_back(first + row * row_bytes);
  return rows;
}

class GatheredPayloads final : public DevicePayloads {
 public:
  explicit GatheredPayloads(const DevicePayloadsSetup& setup)
      : DevicePayloads(setup.plan, served_groups(setup), PayloadForm::kNatural), own_(setup.own()) {
    const Run run = run_of(whole_segments(setup.layout));
    row_bytes_ = run.bytes;
    rows_ = zeroed_bytes(own_.num_workers * row_bytes_, setup.device);
    const std::vector<std::uint8_t*> rows = rows_of(bytes_of(rows_), own_.num_workers, row_bytes_);
    add_outgoing(run, std::span(rows).subspan(static_cast<std::size_t>(own_.first_local_worker),
                                              static_cast<std::size_t>(own_.num_local_workers)));
    add_incoming(run, rows);
    gather_.buffer = bytes_of(rows_);
    for (const WorkerRange& range : setup.ranks) {
      gather_.parts.push_back({range.first_local_worker * row_bytes_, range.num_local_workers * row_bytes_});
    }
  }

  void submit(DeviceCommunicator& communicator, Stream& stream) override {
    communicator.all_gather({&gather_, 1}, stream);
  }

  void add_bytes(ExchangeBytes& report) const override {
    const WireNodes nodes(own_, 0, ShardOwners::kWorkers);
    nodes.add_gathered(
        report, &ExchangeBytes::gradient, [&](int) { return row_bytes_; }, row_bytes_ * own_.num_workers);
  }

 private:
  WorkerRange own_;
  std::int64_t row_bytes_ = 0;
  Buffer<std::uint64_t> rows_;  // [N][row_bytes_]
  DeviceGather gather_;
};

/// Outgoing: for each rank, one range of bytes with the runs of that rank's shards, local worker after local worker.
/// Incoming: for each worker, the runs of this rank's shards.
class ScatteredPayloads final : public DevicePayloads {
 public:
  explicit ScatteredPayloads(const DevicePayloadsSetup& setup)
      : DevicePayloads(setup.plan, served_groups(setup), PayloadForm::kNatural),
        own_(setup.own()),
        owners_(setup.owners) {
    const std::vector<ShardRange> shards = shards_of_ranks(setup.ranks, owners_);
    own_shards_ = shards[static_cast<std::size_t>(setup.rank)];
    std::size_t num_shards = 0;
    for (const ShardRange& range : shards) num_shards += range.count;
    std::vector<Run> runs;
    std::int64_t row_bytes = 0;
    for (const std::vector<Slice>& shard : shards_by_codec(setup.layout, setup.plan, static_cast<int>(num_shards))) {
      runs.push_back(run_of(shard));
      shard_bytes_.push_back(runs.back().bytes);
      row_bytes += runs.back().bytes;
    }
    outgoing_ = zeroed_bytes(own_.num_local_workers * row_bytes, setup.device);
    std::int64_t sent = 0;
    for (const ShardRange& range : shards) {
      const std::int64_t bytes = bytes_of_shards(range);
      to_.push_back({sent, own_.num_local_workers * bytes});
      add_shards(runs, range, bytes_of(outgoing_) + sent, own_.num_local_workers, &ScatteredPayloads::add_outgoing);
      sent += own_.num_local_workers * bytes;
    }
    const std::int64_t own_bytes = bytes_of_shards(own_shards_);
    for (const WorkerRange& range : setup.ranks) {
      from_.push_back({range.first_local_worker * own_bytes, range.num_local_workers * own_bytes});
    }
    // With a single rank, payloads are read where they were written.
    is_alone_ = setup.ranks.size() == 1;
    if (!is_alone_) incoming_ = zeroed_bytes(own_.num_workers * own_bytes, setup.device);
    add_shards(runs, own_shards_, bytes_of(is_alone_ ? outgoing_ : incoming_), own_.num_workers,
               &ScatteredPayloads::add_incoming);
  }

  void submit(DeviceCommunicator& communicator, Stream& stream) override {
    if (!is_alone_) communicator.all_to_all(bytes_of(outgoing_), to_, bytes_of(incoming_), from_, stream);
  }

  void add_bytes(ExchangeBytes& report) const override {
    // The owner of each shard is one of the workers' nodes, and does not send to itself.
    const WireNodes nodes(own_, 0, owners_);
    for (std::size_t shard = 0; shard < shard_bytes_.size(); ++shard) {
      const bool is_own = own_shards_.has(shard);
      report.gradient.sent += shard_bytes_[shard] * (own_.num_local_workers - (is_own ? 1 : 0));
      if (!is_own) continue;
      nodes.of_owner(report, &ExchangeBytes::gradient).received += shard_bytes_[shard] * nodes.num_peers();
    }
  }

 private:
  std::int64_t bytes_of_shards(const ShardRange& range) const {
    std::int64_t bytes = 0;
    for (std::size_t shard = range.first; shard < range.end(); ++shard) bytes += shard_bytes_[shard];
    return bytes;
  }

  /// Adds the shards of `range`, which are adjacent in each of `count` rows beginning at `first`.
  void add_shards(std::span<const Run> runs, const ShardRange& range, std::uint8_t* first, int count,
                  void (ScatteredPayloads::*add)(const Run&, std::span<std::uint8_t* const>)) {
    const std::int64_t row_bytes = bytes_of_shards(range);
    for (std::size_t shard = range.first; shard < range.end(); ++shard) {
      (this->*add)(runs[shard], rows_of(first, count, row_bytes));
      first += runs[shard].bytes;
    }
  }

  WorkerRange own_;
  ShardOwners owners_;
  ShardRange own_shards_;
  std::vector<std::int64_t> shard_bytes_;  // per worker
  bool is_alone_ = false;
  Buffer<std::uint64_t> outgoing_;  // [ranks][local workers][the rank's shards]
  Buffer<std::uint64_t> incoming_;  // [N][own shards]
  std::vector<ByteRange> to_, from_;
};

class SummedPayloads final : public DevicePayloads {
 public:
  explicit SummedPayloads(const DevicePayloadsSetup& setup)
      : DevicePayloads(setup.plan, served_groups(setup), PayloadForm::kLanes), own_(setup.own()) {
    const Run run = run_of(whole_segments(setup.layout));
    row_bytes_ = run.bytes;
    rows_ = zeroed_bytes(own_.num_local_workers * row_bytes_, setup.device);
    const std::vector<std::uint8_t*> rows = rows_of(bytes_of(rows_), own_.num_local_workers, row_bytes_);
    add_outgoing(run, rows);
    // With a single rank, aggregation sums the lanes.
    is_alone_ = setup.ranks.size() == 1;
    if (!is_alone_) sums_ = zeroed_bytes(row_bytes_, setup.device);
    add_incoming(run, is_alone_ ? rows : rows_of(bytes_of(sums_), 1, row_bytes_));
  }

  void submit(DeviceCommunicator& communicator, Stream& stream) override {
    if (is_alone_) return;
    // Encoded payloads are kept, for decoding a single worker's message.
    copy<std::uint64_t>(row(0), sums_.span(), stream);
    for (int worker = 1; worker < own_.num_local_workers; ++worker) add_lanes(sums_.span(), row(worker), stream);
    communicator.all_reduce_sum(sums_.span(), stream);
  }

  void add_bytes(ExchangeBytes& report) const override {
    WireNodes(own_, 0, ShardOwners::kWorkers).add_all_reduce(report, &ExchangeBytes::gradient, row_bytes_);
  }

 private:
  std::span<const std::uint64_t> row(int worker) const {
    const auto words = static_cast<std::size_t>(row_bytes_) / sizeof(std::uint64_t);
    return rows_.span().subspan(static_cast<std::size_t>(worker) * words, words);
  }

  WorkerRange own_;
  std::int64_t row_bytes_ = 0;
  bool is_alone_ = false;
  Buffer<std::uint64_t> rows_;  // [local workers][row_bytes_]
  Buffer<std::uint64_t> sums_;  // [row_bytes_]
};

}  // namespace

DevicePayloads::DevicePayloads(const CodecPlan& plan, std::vector<bool> serves, PayloadForm form)
    : plan_(plan), serves_(std::move(serves)), slots_(serves_.size()) {
  for (PayloadSlots& slots : slots_) slots.form = form;
}

DevicePayloads::Run DevicePayloads::run_of(std::span<const Slice> slices) const {
  Run run;
  for (const Slice& slice : slices) {
    const auto group = static_cast<std::size_t>(plan_.group_of(slice.segment));
    if (!serves_[group] || slice.count == 0) continue;
    run.slices.push_back(slice);
    run.groups.push_back(group);
    run.offsets.push_back(run.bytes);
    const std::int64_t bytes = plan_.codec_of(slice.segment).max_payload_bytes(slice, slots_[group].form);
    run.bytes += (bytes + kPlaceBytes - 1) / kPlaceBytes * kPlaceBytes;
  }
  return run;
}

void DevicePayloads::add_outgoing(const Run& run, std::span<std::uint8_t* const> begin) {
  for (std::size_t i = 0; i < run.slices.size(); ++i) {
    PayloadSlots& slots = slots_[run.groups[i]];
    slots.encoded.push_back(run.slices[i]);
    for (std::uint8_t* row : begin) slots.outgoing.push_back(row + run.offsets[i]);
    slots.outgoing_bytes.resize(slots.outgoing.size());
  }
}

void DevicePayloads::add_incoming(const Run& run, std::span<std::uint8_t* const> begin) {
  for (std::size_t i = 0; i < run.slices.size(); ++i) {
    PayloadSlots& slots = slots_[run.groups[i]];
    slots.aggregated.push_back(run.slices[i]);
    slots.num_payloads = static_cast<int>(begin.size());
    for (const std::uint8_t* row : begin) slots.incoming.push_back(row + run.offsets[i]);
    const std::int64_t room = plan_.codec_of(run.slices[i].segment).max_payload_bytes(run.slices[i], slots.form);
    slots.incoming_bytes.resize(slots.incoming.size(), room);
  }
}

std::unique_ptr<DevicePayloads> make_gathered_payloads(const DevicePayloadsSetup& setup) {
  return std::make_unique<GatheredPayloads>(setup);
}

std::unique_ptr<DevicePayloads> make_scattered_payloads(const DevicePayloadsSetup& setup) {
  return std::make_unique<ScatteredPayloads>(setup);
}

std::unique_ptr<DevicePayloads> make_summed_payloads(const DevicePayloadsSetup& setup) {
  return std::make_unique<SummedPayloads>(setup);
}

}  // namespace terngrad
