#include "trainers/loop/device_replica.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "datasets/device_examples.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stream_fork.h"
#include "kernels/tensor/transform.h"
#include "trainers/loop/cuda/step_ring.h"
#include "trainers/loop/ready_buckets.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/trained_tensors.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad {
namespace {

// Short compared with a burst. Sleeping leaves the core to the pipeline of examples.
constexpr std::chrono::microseconds kPoll{50};

Buffer<float> zeroed(std::int64_t count, Stream& stream) {
  Buffer<float> buffer(count, stream.device());
  fill_zero(buffer.span(), stream);
  return buffer;
}

}  // namespace

DeviceReplica::DeviceReplica(DeviceReplicaParts parts, int max_burst)
    : parts_(std::move(parts)),
      trained_(std::make_unique<TrainedTensors>(parts_.net->layout())),
      stream_(parts_.net->stream()),
      flat_elements_(parts_.net->layout().flat_elements()),
      state_elements_(parts_.net->state_layout().flat_elements()),
      ring_(max_burst, parts_.num_workers, stream_),
      parameters_(zeroed(flat_elements_, stream_)),
      ema_(zeroed(flat_elements_, stream_)),
      mean_(zeroed(flat_elements_, stream_)),
      gradients_(zeroed(flat_elements_ * parts_.num_workers, stream_)),
      states_(zeroed(state_elements_ * parts_.num_workers, stream_)),
      states_before_(zeroed(state_elements_ * parts_.num_workers, stream_)),
      state_ema_(zeroed(state_elements_, stream_)),
      losses_(parts_.num_workers, stream_.device()),
      mean_table_(parts_.net->layout(), mean_.data()) {
  TERNGRAD_REQUIRE(!parts_.exchanges.empty() && parts_.communicator != nullptr,
                   "[DeviceReplica] needs an exchange and its communicator");
  stages_ = parts_.exchanges[0]->plan().stages();
  TERNGRAD_REQUIRE(stages_.size() == 1 || parts_.exchanges.size() == 1,
                   "[DeviceReplica] codecs with stages are for the only exchange, got ", parts_.exchanges.size());
  while (parts_.exchanges.size() < stages_.size()) parts_.exchanges.push_back(parts_.exchanges[0]);
  if (parts_.buckets.empty()) parts_.buckets = whole_bucket(parts_.net->layout());
  check_buckets(parts_.net->layout(), parts_.buckets);
  buckets_ = parts_.buckets;
  if (parts_.fork != nullptr) require_per_tensor(parts_.transforms);
  gradient_tables_ = tables_of(parts_.net->layout(), worker_gradients());
}

DeviceReplica::~DeviceReplica() = default;

std::set<std::string> DeviceReplica::codecs_through_host() const {
  std::set<std::string> names;
  for (const auto& exchange : parts_.exchanges) names.merge(exchange->codecs_through_host(parts_.buckets));
  return names;
}

std::uint64_t DeviceReplica::plan_fingerprint() const { return parts_.exchanges.at(0)->plan().fingerprint(); }

ExamplesPlacement DeviceReplica::examples_placement() const { return parts_.examples->placement(); }

WorkerMemory* DeviceReplica::memory() { return parts_.exchanges[0]->memory(); }

SharedState& DeviceReplica::shared() { return parts_.exchanges[0]->shared_state(); }

void DeviceReplica::set_trained(const TrainedTensors& trained) {
  if (trained.frozen() == trained_->frozen()) return;
  stream_.synchronize();
  graphs_.clear();
  *trained_ = trained;
  buckets_ = trained_->of(parts_.buckets);
}

void DeviceReplica::load(const ReplicaState& state) {
  // In the exchanges' stream, which steps that are replayed do not wait for.
  if (parts_.fork != nullptr) parts_.fork->begin();
  for (const auto& exchange : parts_.exchanges) exchange->forget_nonfinite();
  if (parts_.fork != nullptr) parts_.fork->join();
  copy<float>(state.state_ema, state_ema_.span(), stream_);
  const auto per_worker = static_cast<std::size_t>(state_elements_);
  for (std::size_t worker = 0; worker < state.states.size(); ++worker) {
    copy<float>(state.states[worker], states_.span().subspan(worker * per_worker, per_worker), stream_);
  }
  for (std::size_t worker = 0; worker < state.kept.size(); ++worker) {
    copy<float>(state.kept[worker], memory()->state(static_cast<int>(worker)), stream_);
  }
  copy<float>(state.shared, shared().values(), stream_);
  load_shared(state);
}

void DeviceReplica::load_shared(const ReplicaState& state) {
  copy<float>(state.parameters, parameters_.span(), stream_);
  copy<float>(state.ema, ema_.span(), stream_);
  const std::vector<Optimizer::Slot> slots = parts_.optimizer->slots();
  for (std::size_t i = 0; i < slots.size(); ++i) copy<float>(state.slots.at(i).values, slots[i].values, stream_);
  stream_.synchronize();
}

void DeviceReplica::store(const ReplicaState& state) {
  copy<float>(parameters_.span(), state.parameters, stream_);
  copy<float>(ema_.span(), state.ema, stream_);
  copy<float>(state_ema_.span(), state.state_ema, stream_);
  const auto per_worker = static_cast<std::size_t>(state_elements_);
  for (std::size_t worker = 0; worker < state.states.size(); ++worker) {
    copy<float>(states_.span().subspan(worker * per_worker, per_worker), state.states[worker], stream_);
  }
  for (std::size_t worker = 0; worker < state.kept.size(); ++worker) {
    copy<float>(memory()->state(static_cast<int>(worker)), state.kept[worker], stream_);
  }
  if (parts_.exchanges[0]->takes_part()) copy<float>(shared().values(), state.shared, stream_);
  const std::vector<Optimizer::Slot> slots = parts_.optimizer->slots();
  for (std::size_t i = 0; i < slots.size(); ++i) copy<float>(slots[i].values, state.slots.at(i).values, stream_);
  stream_.synchronize();
}

void DeviceReplica::submit_update(CompressedAllReduce& exchange) {
  const std::uint32_t* skip = exchange.skip();
  if (parts_.mean_factor != 1) scale(mean_.span(), parts_.mean_factor, stream_);
  // The rate is read from the step's input on the device.
  parts_.optimizer->update(parameters_.span(), mean_.span(), {}, stream_, ring_.update_scalars(skip), trained_.get());
  update_ema(ema_.span(), parameters_.span(), 0, stream_, ring_.average_scalars(skip));
  if (state_elements_ == 0) return;
  cuda::copy_if(skip, states_before_.data(), states_.data(), states_.num_elements(), stream_);
  update_ema(state_ema_.span(), states_.span().first(static_cast<std::size_t>(state_elements_)), 0, stream_,
             ring_.average_scalars(skip));
}

void DeviceReplica::submit_gradients(const SegmentSubmitted& on_segment) {
  parts_.net->submit_gradients(parameters_.data(),
                               {.images = parts_.examples->images(),
                                .labels = parts_.examples->labels(),
                                .step = ring_.step(),
                                .states = {states_.data(), state_elements_}},
                               {gradients_.data(), flat_elements_}, losses_.data(), on_segment);
}

WorkerGradients DeviceReplica::worker_gradients() {
  return {{gradients_.data(), flat_elements_}, parts_.num_workers, parts_.first_worker};
}

void DeviceReplica::submit_transforms(const FlatRange& range) {
  submit_all(parts_.transforms, parameters_.data(), worker_gradients(), range, ring_.counts(), stream_);
}

void DeviceReplica::compute_then_exchange(CompressedAllReduce& exchange) {
  submit_gradients({});
  submit_all(parts_.transforms, parameters_.data(), worker_gradients(), *trained_, ring_.counts(), stream_);
  exchange.begin(ring_.step());
  for (const std::vector<int>& bucket : buckets_) exchange.exchange(bucket, gradient_tables_, mean_table_);
  exchange.finish();
}

// Transforms run in the net's stream, so only the exchange itself runs concurrently with the backward pass. No memory
// is accessed by both at once, within a step or between two, directly or replayed from a graph:
//  - gradients: the branch reads a bucket after all work that the stream got before the fork began again; the next step
//    writes them after the join;
//  - mean, non-finite flags, the state of memories and of low-rank tensors: written in the branch, bucket after bucket,
//    and read by the stream after the join. The next step's fork begins after these reads;
//  - scalers, payloads and tables: separate per bucket, and used in the branch only;
//  - the step number in device memory: read in the branch, and incremented in the stream after the join.
void DeviceReplica::compute_while_exchanging(CompressedAllReduce& exchange) {
  const Layout& layout = parts_.net->layout();
  parts_.fork->begin();
  try {
    exchange.begin(ring_.step());
    // The net finishes a tensor for all workers at once, hence one worker here.
    ReadyBuckets ready(buckets_, 1, [&](int bucket) {
      const std::vector<int>& segments = buckets_[static_cast<std::size_t>(bucket)];
      for (const FlatRange& range : ranges_of(layout, segments)) submit_transforms(range);
      parts_.fork->begin();
      exchange.exchange(segments, gradient_tables_, mean_table_);
    });
    submit_gradients([&](int segment) {
      if (!trained_->is_frozen(segment)) ready.mark(segment);
    });
    TERNGRAD_REQUIRE(ready.all_announced(), "[overlap] the net ", parts_.net->name(), " has not ended every tensor");
    exchange.finish();
  } catch (...) {
    join_after_failure();
    throw;
  }
  parts_.fork->join();
}

void DeviceReplica::join_after_failure() noexcept {
  try {
    parts_.fork->join();
  } catch (const Error&) {
    // The device has failed; the next wait for the stream reports it.
  }
}

void DeviceReplica::submit_step(std::size_t index) {
  CompressedAllReduce& exchange = *parts_.exchanges[index];
  if (stages_.size() > 1) exchange.use_codecs_of(stages_[index]);
  ring_.submit_begin();
  parts_.examples->submit(ring_.step());
  if (state_elements_ > 0) copy<float>(states_.span(), states_before_.span(), stream_);
  if (parts_.fork != nullptr) {
    compute_while_exchanging(exchange);
  } else {
    compute_then_exchange(exchange);
  }
  submit_update(exchange);
  ring_.submit_end(losses_.data(), exchange.skip());
}

void DeviceReplica::prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs) {
  parts_.examples->prepare(first_step, static_cast<int>(inputs.size()));
  ring_.prepare(first_step, inputs);
}

void DeviceReplica::rehearse(std::uint64_t first_step, std::span<const cuda::StepInput> inputs) {
  // Reports are of the step that was submitted last, which is to be that of the next graph.
  graphs_.clear();
  for_each_communicator([](DeviceCommunicator& c) { c.rehearse(true); });
  for (std::size_t index = 0; index < parts_.exchanges.size(); ++index) {
    prepare(first_step, inputs);
    parts_.optimizer->use_exchange(index, stream_);
    submit_step(index);
  }
  for_each_communicator([](DeviceCommunicator& c) { c.rehearse(false); });
  stream_.synchronize();
}

void DeviceReplica::submit_steps(std::uint64_t first_step, int count,
                                 const std::function<std::size_t(std::uint64_t step)>& exchange_of,
                                 const std::atomic<bool>& lost, const std::function<void()>& meet) {
  for (std::uint64_t step = first_step; step < first_step + static_cast<std::uint64_t>(count); ++step) {
    const std::size_t index = exchange_of(step);
    parts_.optimizer->use_exchange(index, stream_);
    const auto graph = graphs_.find(index);
    if (graph != graphs_.end()) {
      graph->second.launch(stream_);
      continue;
    }
    submit_step(index);
    if (!parts_.captures) continue;
    // Wait before capturing, so that an error in the step is reported as itself and not as a failed capture. This first
    // step also warms up the communicator, which may connect peers and allocate at first operations.
    wait(lost);
    meet();
    graphs_.emplace(index, CapturedGraph(stream_, [&] { submit_step(index); }));
    meet();
  }
}

void DeviceReplica::wait(const std::atomic<bool>& lost) {
  if (parts_.communicator->size() == 1) return stream_.synchronize();
  while (!stream_.is_done()) {
    for_each_communicator([](DeviceCommunicator& c) { c.check(); });
    if (lost) TERNGRAD_THROW(CommunicationError, "[DeviceReplica] another GPU of the run has failed");
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - burst_began_;
    if (parts_.timeout_seconds > 0 && waited.count() > parts_.timeout_seconds) {
      TERNGRAD_THROW(CommunicationError, "[DeviceReplica] ", stream_.device().name(), " has waited for other GPUs for ",
                     parts_.timeout_seconds, " seconds");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

std::vector<StepOutcome> DeviceReplica::run(std::uint64_t first_step, int count,
                                            const std::function<std::size_t(std::uint64_t step)>& exchange_of,
                                            std::atomic<bool>& lost, const std::function<void()>& meet) {
  burst_began_ = std::chrono::steady_clock::now();
  try {
    submit_steps(first_step, count, exchange_of, lost, meet);
    parts_.examples->prefetch();
    wait(lost);
  } catch (...) {
    lost = true;
    give_up();
    throw;
  }
  std::vector<StepOutcome> outcomes = ring_.outcomes(first_step, count);
  const auto num_applied = std::ranges::count(outcomes, false, &StepOutcome::skipped);
  parts_.optimizer->count_updates(static_cast<std::uint64_t>(num_applied));
  return outcomes;
}

void DeviceReplica::give_up() noexcept {
  // Graphs first, because the communicator waits for graphs with its operations. Running graphs are freed at their end.
  graphs_.clear();
  for_each_communicator([](DeviceCommunicator& c) { c.abandon(); });
}

ExchangeReport DeviceReplica::report(std::size_t exchange, std::uint64_t step) {
  // The exchange may have a branch of the stream, which does not wait for graphs of the stream.
  stream_.synchronize();
  return parts_.exchanges.at(exchange)->report(step);
}

ExchangeBytes DeviceReplica::bytes(std::size_t exchange) const { return parts_.exchanges.at(exchange)->bytes(); }

float DeviceReplica::decode_sent(std::size_t exchange, int segment, std::span<float> out) {
  stream_.synchronize();
  return parts_.exchanges.at(exchange)->decode_local(0, segment, out);
}

std::vector<float> DeviceReplica::gradient(int worker, int segment) {
  const auto flat = static_cast<std::size_t>(flat_elements_);
  return tensor_on_host(gradients_.span().subspan(static_cast<std::size_t>(worker) * flat, flat), segment);
}

std::vector<float> DeviceReplica::group_mean(std::size_t exchange, int segment) {
  return on_host(parts_.exchanges.at(exchange)->group_mean(0, segment));
}

std::vector<float> DeviceReplica::encoded(std::size_t exchange, int segment) {
  return on_host(parts_.exchanges.at(exchange)->encoded(0, segment));
}

std::vector<float> DeviceReplica::mean(int segment) { return tensor_on_host(mean_.span(), segment); }

std::vector<float> DeviceReplica::tensor_on_host(std::span<const float> values, int segment) {
  const Segment& place = parts_.net->layout().segment(segment);
  return on_host(values.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.num_elements)));
}

std::vector<float> DeviceReplica::on_host(std::span<const float> values) {
  std::vector<float> copied(values.size());
  copy<float>(values, std::span(copied), stream_);
  stream_.synchronize();
  return copied;
}

}  // namespace terngrad
