#include "kernels/sparse/sparse_sum.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/sparse/cuda/sparse_sum.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

void check_tasks(std::span<const SparseSumTask> tasks, bool on_gpu) {
  for (const SparseSumTask& task : tasks) {
    TERNGRAD_REQUIRE(!task.workers.empty(), "[sparse] a sum needs the message of at least one worker");
    const SparseShape& first = task.workers[0].shape;
    for (const SparseMessage& worker : task.workers) {
      TERNGRAD_REQUIRE(worker.shape.num_elements == first.num_elements, "[sparse] slices of ", first.num_elements,
                       " and ", worker.shape.num_elements, " elements do not add up");
      TERNGRAD_REQUIRE(worker.shape.format == tasks[0].workers[0].shape.format &&
                           worker.shape.values == tasks[0].workers[0].shape.values,
                       "[sparse] all messages of a call have one format and width of values");
      if (!on_gpu) continue;
      TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(worker.payload.data()) % 8 == 0,
                       "[sparse] payloads begin at multiples of 8");
      TERNGRAD_REQUIRE(worker.shape == first, "[sparse] on a GPU all workers' messages have one shape");
      const std::int64_t room = max_sparse_bytes(first);
      TERNGRAD_REQUIRE(static_cast<std::int64_t>(worker.payload.size()) >= room, "[sparse] a message needs ", room,
                       " bytes, there are ", worker.payload.size());
    }
  }
}

void add_up(const SparseSumTask& task, Stream& stream) {
  constexpr std::int64_t kGrainChunks = 4;
  const std::int64_t count = task.workers[0].shape.num_elements;
  parallel_for(stream.num_threads(), (count + kChunkElements - 1) / kChunkElements, kGrainChunks,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::int64_t first = begin * kChunkElements;
                 const std::span<float> sum(task.out + first,
                                            static_cast<std::size_t>(std::min(end * kChunkElements, count) - first));
                 std::ranges::fill(sum, 0.0f);
                 for (const SparseMessage& worker : task.workers) add_sparse(worker.shape, worker.payload, first, sum);
                 for (float& value : sum) value *= task.scale;
               });
}

}  // namespace

SparseSummer::SparseSummer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_sparse_sum_runner(device);
}

void SparseSummer::run(std::span<const SparseSumTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[sparse] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  check_tasks(tasks, device_.is_cuda());
  if (device_.is_cuda()) return cuda_->run(tasks, stream);
  for (const SparseSumTask& task : tasks) add_up(task, stream);
}

}  // namespace terngrad
