// Host memory for the messages of an exchange, known before it is made.
#pragma once

#include <cstdint>

#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Bytes that a BucketedAllReduce fills in this process, once it has exchanged a few steps: what the workers' gradients
/// are encoded to, what is on its way, and what has come. With L of N workers here, of all buckets and G the bytes of a
/// worker's payloads, with headers where they are on their way,
///
///   all_gather       L G encoded; between processes also L G sent and N G received
///   scatter_reduce   L G encoded; between processes also L G sent, and in turns N g of this process's shards and all
///                    shards of the mean received
///   integer_sum      as all_gather for tensors whose codes do not add up; L lanes encoded, and their sum
///
/// Of tensors of low rank it is both rounds' messages, and both factors of each worker here and of the mean, and with
/// factors in bf16 the first of each worker once more. Between processes that add up floats
/// (compress/wire/gradient_transport.h), sums travel in place of messages. Sizes are exact for codecs of fixed size,
/// and the most for others. The transport's own buffers are not counted, nor scalers and statistics, which are small
/// beside messages.
/// @param options  `update` counts as nullptr, whose shards are cut otherwise but are as large
/// @throws InvalidArgument as BucketedAllReduce
std::int64_t exchange_memory(const Layout& layout, const CompressedAllReduceOptions& options, const Buckets& buckets,
                             const WorkerGroup& workers);

}  // namespace terngrad
