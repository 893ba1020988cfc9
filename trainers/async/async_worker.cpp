#include "trainers/async/async_worker.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "compress/memory/worker_memory.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad {
namespace {

PipelineOptions examples_of(int worker, int num_workers, const TrainerOptions& options) {
  WorkerRange range;
  range.num_workers = num_workers;
  range.first_local_worker = worker;
  return pipeline_options(range, range, options);
}

}  // namespace

AsyncWorker::AsyncWorker(AsyncWorkerParts parts, int num_workers, const TrainerOptions& options)
    : parts_(std::move(parts)),
      examples_(examples_of(parts_.worker, num_workers, options)),
      parameters_(zeros<float>(parts_.net->layout().flat_elements())),
      state_(zeros<float>(parts_.net->state_layout().flat_elements())),
      state_before_(zeros<float>(state_.num_elements())),
      gradient_(zeros<float>(parameters_.num_elements())),
      gradient_table_(parts_.net->layout(), gradient_.data()),
      encoder_(parts_.protocol->layout, parts_.protocol->plan, parts_.worker, num_workers, options.seed),
      messages_(*parts_.protocol) {
  check_pipeline_options(parts_.dataset.get(), examples_);
  const MemoryOptions memory = parse_memory(parts_.memory);
  if (memory.kind == MemoryKind::kNone) return;
  memory_ = std::make_unique<WorkerMemory>(parts_.protocol->layout, parts_.protocol->plan, memory, 1);
  for (int segment = 0; segment < parts_.protocol->layout.num_segments(); ++segment) all_segments_.push_back(segment);
}

AsyncWorker::~AsyncWorker() = default;

void AsyncWorker::write_pull(Parcels& parcels) { messages_.add_bare(MessageKind::kPull, 0, parts_.worker, parcels); }

void AsyncWorker::write_leave(Parcels& parcels) {
  messages_.add_bare(MessageKind::kLeave, push_, parts_.worker, parcels);
}

std::optional<std::uint64_t> AsyncWorker::begin(const Parcels& answer) {
  const MessageLabel label = messages_.read_bare(answer, 0);
  if (label.kind == MessageKind::kStop) return label.step;
  if (label.kind != MessageKind::kPull || label.worker != static_cast<std::uint32_t>(parts_.worker)) {
    TERNGRAD_THROW(CommunicationError, "[async] the answer to worker ", parts_.worker, "'s pull is of kind ",
                   static_cast<int>(label.kind), " for worker ", label.worker);
  }
  push_ = label.step;
  version_ = messages_.read_parameters(answer, 1, parts_.worker, parameters_.span());
  if (state_.num_elements() > 0) messages_.read_state(answer, 2, push_, parts_.worker, state_.span());
  examples_.first_step = push_;
  pipeline_ = std::make_unique<Pipeline>(parts_.dataset, examples_);
  return std::nullopt;
}

std::optional<std::uint64_t> AsyncWorker::take(const Parcels& answer) {
  const MessageLabel label = messages_.read_bare(answer, 0);
  if (label.kind == MessageKind::kStop) return label.step;
  version_ = messages_.read_parameters(answer, 0, parts_.worker, parameters_.span());
  return std::nullopt;
}

void AsyncWorker::set_pulled(std::uint64_t version, std::span<const float> parameters) {
  TERNGRAD_REQUIRE(std::cmp_equal(parameters.size(), parameters_.num_elements()), "[async] ", parameters.size(),
                   " parameters, expected ", parameters_.num_elements());
  version_ = version;
  std::ranges::copy(parameters, parameters_.span().begin());
}

void AsyncWorker::fetch() {
  TERNGRAD_REQUIRE(pipeline_ != nullptr, "[async] worker ", parts_.worker, " has not pulled yet");
  batch_ = pipeline_->next();
}

void AsyncWorker::compute(Stream& stream) {
  std::ranges::copy(state_.span(), state_before_.span().begin());
  const std::array<float*, 1> states = {state_.data()};
  const std::array<float*, 1> gradients = {gradient_.data()};
  const TrainBatch batch{.images = batch_.images, .labels = batch_.labels, .step = push_, .states = states};
  parts_.net->compute_gradients(parameters_.span(), batch, gradients, {&loss_, 1});
  counts_ = {};
  submit_all(parts_.transforms, parameters_.data(), {{gradient_.data(), gradient_.num_elements()}, 1, parts_.worker},
             whole_range(parts_.net->layout()), &counts_, stream);
}

void AsyncWorker::record_nonfinite(PushMetadata& note) const {
  for (int segment = parts_.protocol->layout.num_segments() - 1; segment >= 0; --segment) {
    if (!encoder_.is_nonfinite(segment)) continue;
    ++note.nonfinite_tensors;
    note.first_nonfinite = static_cast<std::uint32_t>(segment);
  }
}

void AsyncWorker::write_push(bool asks_to_stop, Parcels& parcels, Stream& stream) {
  auto mark = std::chrono::steady_clock::now();
  TensorTable encoded = gradient_table_;
  if (memory_ != nullptr) {
    encoded_ =
        memory_->compensate(parts_.protocol->layout, all_segments_, {&gradient_table_, 1}, {.step = push_}, stream);
    encoded = encoded_[0];
  }
  encoder_.measure(encoded, push_, stream);
  measure_seconds_ = lap_seconds(mark);
  PushMetadata note{.version = version_,
                    .loss = loss_.entropy_loss,
                    .num_correct = static_cast<std::uint64_t>(loss_.num_correct),
                    .zeroed_elements = static_cast<std::uint64_t>(counts_.zeroed_elements),
                    .clipped_gradients = static_cast<std::uint64_t>(counts_.clipped_gradients),
                    .asks_to_stop = asks_to_stop};
  record_nonfinite(note);
  if (note.nonfinite_tensors > 0 && !parts_.keeps_state_of_nonfinite) {
    std::ranges::copy(state_before_.span(), state_.span().begin());
  }
  messages_.add_metadata(push_, parts_.worker, note, parcels);
  sent_ = encoder_.gradient_message(encoded, parts_.protocol->at(push_), stream);
  parcels.append(sent_);
  if (memory_ != nullptr) {
    for (const MemoryTables& tables : memory_->kept(parts_.protocol->layout, all_segments_, encoded_)) {
      encoder_.update_memory(tables.what, tables.from[0], tables.into[0], stream);
    }
  }
  if (state_.num_elements() > 0) messages_.add_state(push_, parts_.worker, state_.span(), parcels, stream);
  ++push_;
  encode_seconds_ = lap_seconds(mark);
}

std::span<const float> AsyncWorker::tensor_of(const TensorTable& table, int segment) const {
  return {table.tensor(segment), static_cast<std::size_t>(parts_.protocol->layout.segment(segment).num_elements)};
}

std::span<const float> AsyncWorker::gradient(int segment) const { return tensor_of(gradient_table_, segment); }

std::span<const float> AsyncWorker::encoded(int segment) const {
  if (memory_ == nullptr || !memory_->covers(segment)) return {};
  return tensor_of(encoded_.at(0), segment);
}

float AsyncWorker::decode_sent(int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(push_ > 0 && !sent_.empty(), "[async] worker ", parts_.worker, " has not pushed yet");
  return messages_.read_tensor(sent_, push_ - 1, parts_.worker, segment, out);
}

}  // namespace terngrad
