#!/usr/bin/env python3
"""Breaks the project's kernels in ways that are easy to make by mistake, and sees whether their tests notice.

Each mutation changes one place of one file in a copy; the source that holds it is compiled from there and linked with its
test and all other kernels. The tests named must then fail, in one of two orders of threads, or of streams; those of sources that are as
they are must pass.

Usage: mutations.py --of kernels|nets|datasets (--file FILE | --sample N) --compiler CXX [--launcher CCACHE] --root FOLDER
                    --folder FOLDER --thrust FOLDER --objects OBJECT... --link ARGUMENT...
       mutations.py --of kernels|nets|datasets --list

--file takes the mutations of one file, --sample N of all, drawn by TERNGRAD_TEST_SEED (1 if unset). --list prints the files. What is changed is compiled in --folder, which is emptied first: always the same one, so that a compiler cache knows it again.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys

ADDRESS = "-fsanitize=address"


# Environment of the two runs: orders of threads, and of deferred streams. None: the variable is unset.
ORDERS = {"SIMT_SEED": (None, "5"), "SIMT_STREAMS": ("newest_first", "oldest_first")}


@dataclasses.dataclass
class Mutation:
    file: str  # changed file
    source: str  # source that is compiled with the change
    tests: str  # GoogleTest filter
    old: str  # text to replace, which the file contains `times` times; the first is changed
    new: str
    times: int = 1
    sanitizer: str = ""  # sanitizer that detects it
    program: str = ""  # tests are in <program>_test.cpp; default: the source's name
    orders: str = "SIMT_SEED"  # a variable of ORDERS


REDUCE = "kernels/tensor/cuda/reduce.cuh"
REDUCE_TEST = "tests/simt/reduce_test.cpp"
STATISTICS = "kernels/statistics/cuda/statistics.cu"
STATISTICS_CHUNK = "kernels/statistics/cuda/statistics_chunk.cuh"
STAGED_CHUNK = "kernels/statistics/cuda/staged_chunk.cuh"
SIGNED_STATISTICS = "kernels/statistics/cuda/signed_statistics.cu"
TERNARIZE = "kernels/codes/cuda/ternarize.cu"
TERNARIZE_CHUNK = "kernels/codes/cuda/ternarize_chunk.cuh"
TERNARIZE_WHOLE = "kernels/codes/cuda/ternarize_whole.cuh"
ENCODE_BLOCKS = "kernels/codes/cuda/encode_blocks.cu"
AGGREGATE = "kernels/codes/cuda/code_sum.cu"
CODES = "kernels/codes/cuda/codes.cuh"
TASKS = "kernels/codes/cuda/tasks.cuh"
TREE_SUM = "kernels/codes/cuda/tree_sum.cu"
TERNARY_PACK = "kernels/codes/cuda/ternary_pack.cu"
PACK_SUMS = "kernels/codes/cuda/pack_sums.cu"
PACKED_SUMS = "kernels/codes/cuda/packed_sums.cuh"
WORD_READER = "kernels/codes/cuda/word_reader.cuh"
LEAF_READER = "kernels/codes/cuda/leaf_reader.cuh"
CODE_TREE_SUM = "kernels/codes/cuda/code_tree_sum.cuh"
LEVELS = "kernels/codes/cuda/levels.cu"
FP8 = "kernels/codes/cuda/fp8.cu"
CODEBOOK_CODES = "kernels/codes/cuda/codebook_codes.cu"
CODEBOOK_SCALERS = "kernels/statistics/cuda/codebook_scalers.cu"
ROTATE = "kernels/codes/cuda/rotate.cu"
AVERAGED_RESIDUAL = "kernels/tensor/cuda/averaged_residual.cu"
QUANTIZE_KERNEL = "kernels/codes/cuda/quantize_kernel.cuh"
TOP_K_SELECT = "kernels/sparse/cuda/top_k_select.cuh"
SPARSE_ENCODER = "kernels/sparse/cuda/sparse_encoder.cu"
SPARSE_SUM = "kernels/sparse/cuda/sparse_sum.cu"
DRAWN_PAYLOAD = "kernels/sparse/cuda/drawn_payload.cu"
FACTOR_STEPS = "kernels/factors/cuda/factor_steps.cu"
LOW_RANK = "kernels/factors/cuda/low_rank.cu"

KERNELS_MUTATIONS = [
    Mutation(REDUCE, REDUCE_TEST, "Reductions.*", "__syncthreads();", "", 4),
    Mutation(REDUCE, REDUCE_TEST, "Reductions.*", "__syncthreads();  // of_warp may be written again\n  return value", "return value"),
    Mutation(REDUCE, REDUCE_TEST, "Reductions.*", "distance = kWarpThreads / 2", "distance = kWarpThreads / 4"),
    Mutation(REDUCE, REDUCE_TEST, "Reductions.*", "unsigned warp = 1;", "unsigned warp = 0;"),
    Mutation(REDUCE, REDUCE_TEST, "ExclusiveSum.*", "lane >= distance", "lane > distance"),
    Mutation(REDUCE, TERNARIZE, "CudaTernarize.*", "lane == kWarpThreads - 1", "lane == 0"),
    Mutation(STATISTICS, STATISTICS, "CudaStatistics.*", "if (index >= num_tiles) return;", "", sanitizer=ADDRESS),
    Mutation(STATISTICS, STATISTICS, "CudaStatistics.*", "num_chunks <= kWarpChunks", "num_chunks <= kWarpChunks + 1"),
    Mutation(STATISTICS, STATISTICS, "CudaStatistics.*", "distance >= kLanesPerWarp", "distance > kLanesPerWarp"),
    Mutation(STATISTICS, STATISTICS, "CudaStatistics.*", "tiles_.size() + i * kWarpThreads", "tiles_.size()"),
    Mutation(STATISTICS_CHUNK, STATISTICS, "CudaStatistics.*", "unsigned distance = 4;", "unsigned distance = 8;"),
    Mutation(STATISTICS_CHUNK, STATISTICS, "CudaStatistics.*", "if (i < count) accum", "if (i <= count) accum"),
    Mutation(STATISTICS_CHUNK, SIGNED_STATISTICS, "CudaSignedStatistics.*", "slots[threadIdx.x] = value;\n  __syncthreads();", "slots[threadIdx.x] = value;"),
    Mutation(STATISTICS_CHUNK, SIGNED_STATISTICS, "CudaSignedStatistics.*", "distance >= kWarpThreads", "distance > kWarpThreads"),
    Mutation(STAGED_CHUNK, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "+ (partials.sums[2][lane] + partials.sums[3][lane])", "+ partials.sums[2][lane] + partials.sums[3][lane]"),
    Mutation(STAGED_CHUNK, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "i % kRow / 32 * (32 + kGap)", "i % kRow / 32 * 32"),
    Mutation(ENCODE_BLOCKS, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "__syncthreads();\n      if (half < kChunks) reduce", "if (half < kChunks) reduce"),
    Mutation(ENCODE_BLOCKS, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "partials[half]);\n      __syncthreads();", "partials[half]);"),
    Mutation(ENCODE_BLOCKS, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "count > kWarpThreads * kChunkElements", "count > kStatisticsSlots * kChunkElements"),
    Mutation(ENCODE_BLOCKS, ENCODE_BLOCKS, "CudaEncodeBlocks.*", "min(job.block_elements, job.count - first)", "job.block_elements", sanitizer=ADDRESS),
    Mutation(TERNARIZE_CHUNK, TERNARIZE, "CudaTernarize.*", "draw == floored", "draw + 1 == floored", 2),
    Mutation(TERNARIZE_CHUNK, TERNARIZE, "CudaTernarize.*", "taken | high_codes << 16", "high_codes | taken << 16"),
    Mutation(TERNARIZE_WHOLE, TERNARIZE, "CudaTernarize.*", "if (half == 1) codes[1] |= ties;", ""),
    Mutation(TERNARIZE_WHOLE, TERNARIZE, "CudaTernarize.*", "if (!(scaler >= kMinScaler)) codes[0] = codes[1] = 0;", ""),
    Mutation(TERNARIZE_WHOLE, TERNARIZE, "CudaTernarize.*", "tile.words + chunk * kChunkWords", "tile.words"),
    Mutation(TERNARIZE_WHOLE, TERNARIZE, "CudaTernaryModes.*", "i % 2 == 0 ? offset : offset << 16", "offset", program="ternary_modes"),
    Mutation(TERNARIZE, TERNARIZE, "CudaTernarize.*", "task.block_elements - tile.into_block >= kWholeElements", "task.block_elements - tile.into_block >= kWholeElements / 2"),
    Mutation(TERNARIZE, TERNARIZE, "CudaTernarize.*", "words[mine.index] = mine.word;\n  if (threadIdx.x < kSignWords) compacted[threadIdx.x] = 0;\n  __syncthreads();", "words[mine.index] = mine.word;\n  if (threadIdx.x < kSignWords) compacted[threadIdx.x] = 0;"),
    Mutation(TERNARIZE, TERNARIZE, "CudaTernarize.*", "shift == 0 ? 0 : from_words[at / 4 + 1]", "0"),
    Mutation(TERNARIZE, TERNARIZE, "CudaTernarize.*", "first <= last ? end - 4 * last : 0", "0"),
    Mutation(AGGREGATE, AGGREGATE, "CudaCodeSums.*", "sums.stage(staged);\n  __syncthreads();", "sums.stage(staged);"),
    Mutation(WORD_READER, AGGREGATE, "CudaCodeSums.*", "__syncthreads();  // before of_payload is overwritten", ""),
    Mutation(PACKED_SUMS, AGGREGATE, "CudaCodeSums.*", "kBytePayloads = 255 / 3", "kBytePayloads = 255 / 3 + 1"),
    Mutation(PACKED_SUMS, AGGREGATE, "CudaCodeSums.*", "kByteBatches = kBytePayloads / kPayloadBatch", "kByteBatches = kBytePayloads / kPayloadBatch + 1"),
    Mutation(CODES, AGGREGATE, "CudaCodeSums.*", "shift + own > 32", "shift + own > 33"),
    Mutation(CODES, TERNARY_PACK, "CudaUnpack.*", "lane + 4 > per_word", "lane + 3 > per_word"),
    Mutation(CODES, TERNARY_PACK, "CudaUnpack.*", "is_split = shift != 0 &&", "is_split = shift != 0 ||", sanitizer=ADDRESS),
    Mutation(TASKS, AGGREGATE, "CudaCodeSums.*", "((1u << 16) + divisor - 1)", "(1u << 16)"),
    Mutation(CODE_TREE_SUM, TREE_SUM, "CudaTreeSums.*", "__syncthreads();\n        sum = looked_up", "sum = looked_up"),
    Mutation(CODE_TREE_SUM, TREE_SUM, "CudaTreeSums.*", "tables[turn++ % 2]", "tables[0]"),
    Mutation(CODE_TREE_SUM, TREE_SUM, "CudaTreeSums.*", "if (left >= kPayloadBatch) batches", "if (left > kPayloadBatch) batches"),
    Mutation(CODE_TREE_SUM, TREE_SUM, "CudaTreeSums.*", "is_there ? scaler * static_cast<float>(value) : -0.0f", "is_there ? scaler * static_cast<float>(value) : 0.0f"),
    Mutation(TREE_SUM, TREE_SUM, "CudaTreeSums.*", "singles.push(k, v[k])", "singles.push(k ^ 1u, v[k])"),
    Mutation(LEAF_READER, TREE_SUM, "CudaTreeSums.*", "<kBits>(leaves[k].values, tile.begin + element)", "<kBits>(leaves[k].values, tile.begin)"),
    Mutation(LEAF_READER, TREE_SUM, "CudaTreeSums.*", "<1>(leaves[k].values, tile.begin + element)", "<1>(leaves[k].values, tile.begin)"),
    Mutation(LEAF_READER, TREE_SUM, "CudaTreeSums.*", "pairs[i - 1] + 1 == tile.columns ? 0 : pairs[i - 1] + 1", "pairs[i - 1] + 1"),
    Mutation(AGGREGATE, AGGREGATE, "CudaCodeSums.*", "has_second ? level_at<kBits>(fours[1][i], j) : 0", "level_at<kBits>(fours[1][i], j)"),
    Mutation(TOP_K_SELECT, SPARSE_ENCODER, "CudaSparseEncoder.*", "known.left <= above ||", "known.left < above ||"),
    Mutation(TOP_K_SELECT, SPARSE_ENCODER, "CudaSparseEncoder.*", "equal < selected.left", "equal <= selected.left"),
    Mutation(TOP_K_SELECT, SPARSE_ENCODER, "CudaSparseEncoder.*", "before.equal += total >> 16;", ""),
    Mutation(SPARSE_ENCODER, SPARSE_ENCODER, "CudaSparseEncoder.*", "__syncthreads();\n    known = found;", "known = found;"),
    Mutation(SPARSE_ENCODER, SPARSE_ENCODER, "CudaSparseEncoder.*", "if (threadIdx.x == 0) above = 0;\n    __syncthreads();", "if (threadIdx.x == 0) above = 0;"),
    Mutation(SPARSE_ENCODER, SPARSE_ENCODER, "CudaSparseEncoder.*", "histogram[bin] = 0;", ";"),
    Mutation(SPARSE_ENCODER, SPARSE_ENCODER, "CudaSparseEncoder.*", "bits >> -shift", "bits"),
    Mutation(SPARSE_SUM, SPARSE_SUM, "CudaSparseSum.*", "    __syncthreads();\n    if constexpr (kLocal)", "    if constexpr (kLocal)"),
    Mutation(SPARSE_SUM, SPARSE_SUM, "CudaSparseSum.*", "own += first_index + i > 0 && ", "own += "),
    Mutation(SPARSE_SUM, SPARSE_SUM, "CudaSparseSum.*", "min(max(at, std::int64_t{0}), num_words - 1)", "at", sanitizer=ADDRESS),
    Mutation(DRAWN_PAYLOAD, DRAWN_PAYLOAD, "CudaDrawnPayload.*", "out[i] = 0;\n  __syncthreads();", "out[i] = 0;"),
    Mutation(DRAWN_PAYLOAD, DRAWN_PAYLOAD, "CudaDrawnPayload.*", "task.shape.first_group() % kDrawsPerThread + task.shape.num_groups()", "task.shape.num_groups()"),
    Mutation(DRAWN_PAYLOAD, DRAWN_PAYLOAD, "CudaDrawnPayload.*", "kBfloat16 && job.num_groups % 2 != 0", "kBfloat16 && job.num_groups % 2 == 0", sanitizer=ADDRESS),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "__syncthreads();  // wide_p of the previous iteration has been read", ""),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "__syncthreads();  // the previous chunk sums have been read", ""),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "first < num_chunks; first += kChunksAtOnce", "first < min(num_chunks, kChunksAtOnce); first += kChunksAtOnce"),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "begin = end;", ""),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "is_first ? sums[j] :", "!is_first ? sums[j] :"),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "sum = sums[level] + sum;", "sum = sums[level];"),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "norm > before * kSmallestNormRatio", "norm >= 0"),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "row < num_rows && j < num_columns", "j < num_columns", sanitizer=ADDRESS),
    Mutation(LOW_RANK, LOW_RANK, "CudaLowRank.*", "first - first_row * job.columns", "first"),
    Mutation(FACTOR_STEPS, FACTOR_STEPS, "CudaFactorSteps.*", "is_infinite = __syncthreads_or(is_infinite);", ""),
    Mutation(FACTOR_STEPS, FACTOR_STEPS, "CudaFactorSteps.*", "max_bits = shared_max;", ""),
    Mutation(FACTOR_STEPS, FACTOR_STEPS, "CudaFactorSteps.*", "threadIdx.x == 0 && !is_zero", "threadIdx.x == 0"),
    Mutation(LEVELS, LEVELS, "CudaLevels.*", "(sum & 0xffffu) == 0xffffu", "(sum & 0xffffu) == 0xfffeu"),
    Mutation(LEVELS, LEVELS, "CudaLevels.*", "0u - one : one", "one : 0u - one"),
    Mutation(QUANTIZE_KERNEL, LEVELS, "CudaLevels.*", "__syncthreads();\n  const std::int64_t first_word", "const std::int64_t first_word"),
    Mutation(QUANTIZE_KERNEL, LEVELS, "CudaLevels.*", "codes.y = low_bytes(codes.y, present - 4)", "codes.y = low_bytes(codes.y, present)"),
    Mutation(CODEBOOK_CODES, CODEBOOK_CODES, "CudaCodebookCodes.*", ">> 31 != 0 ? kMagnitudes", ">> 31 == 0 ? kMagnitudes"),
    Mutation(QUANTIZE_KERNEL, CODEBOOK_CODES, "CudaCodebookCodes.*", "if (left > kRunElements) return;", "return;"),
    Mutation(CODEBOOK_SCALERS, CODEBOOK_SCALERS, "CudaCodebookScalers.*", "if (index >= num_sources) return;", "", sanitizer=ADDRESS),
    Mutation(CODEBOOK_SCALERS, CODEBOOK_SCALERS, "CudaCodebookScalers.*", "magnitude >= codebook", "magnitude > 2 * codebook"),
    Mutation(FP8, FP8, "CudaFp8.*", "+ 0x7ffffu", "+ 0x80000u"),
    Mutation(FP8, FP8, "CudaFp8.*", "with_sign((word >> shift & 0x7fu) + 1, value)", "(word >> shift & 0xffu) + 1"),
    Mutation(PACK_SUMS, PACK_SUMS, "CudaPackSums.*", "__syncthreads();\n  const unsigned first", "const unsigned first"),
    Mutation(AVERAGED_RESIDUAL, AVERAGED_RESIDUAL, "CudaAveragedResidual.*", "% average.reset == 0", "% average.reset != 0"),
    Mutation(AVERAGED_RESIDUAL, AVERAGED_RESIDUAL, "CudaAveragedResidual.*", "warp_max(max_bits)", "max_bits"),
    Mutation(AVERAGED_RESIDUAL, AVERAGED_RESIDUAL, "CudaAveragedResidual.*", "|| !keeps()", ""),
    Mutation(ROTATE, ROTATE, "CudaRotator.*", "draw / 128 + t", "draw / 128"),
    Mutation(ROTATE, ROTATE, "CudaRotator.*", "stride < of(element)", "stride <= of(element)"),
    Mutation(ROTATE, ROTATE, "CudaRotator.*", "exponent % 2 == 0", "exponent % 2 != 0"),
    Mutation(ROTATE, ROTATE, "CudaRotator.*", "if (element >= count) continue;", "", sanitizer=ADDRESS),
]  # fmt: skip

BATCH_NORM = "nets/cuda/batch_norm.cu"
BIAS = "nets/cuda/bias.cu"
CONCATENATION = "nets/cuda/concatenation.cu"
CONVOLUTION_LAYER = "nets/cuda/convolution_layer.cpp"
DROPOUT = "nets/cuda/dropout.cu"
FILTER_ORDER = "nets/cuda/filter_order.cu"
LRN = "nets/cuda/lrn.cu"
MOVING_STATISTICS = "nets/cuda/moving_statistics.cu"
POOL = "nets/cuda/pool.cu"
POOL_WINDOWS = "nets/cuda/pool_windows.cuh"
SOFTMAX = "nets/cuda/softmax_cross_entropy.cu"
ROW_SUMS = "nets/cuda/row_sums.cuh"
DIVISOR = "nets/cuda/divisor.h"

NETS_MUTATIONS = [
    Mutation(ROW_SUMS, BIAS, "CudaBias.*", "of_thread[thread] = (sums[0] + sums[1]) + (sums[2] + sums[3]);\n  __syncthreads();", "of_thread[thread] = (sums[0] + sums[1]) + (sums[2] + sums[3]);"),
    Mutation(ROW_SUMS, BIAS, "CudaBias.*", "of_thread[thread + half];\n    __syncthreads();", "of_thread[thread + half];"),
    Mutation(ROW_SUMS, BIAS, "CudaBias.*", "half >= plan.lanes", "half > plan.lanes"),
    Mutation(ROW_SUMS, BIAS, "CudaBias.*", "min(first + plan.rows_per_chunk, plan.rows)", "first + plan.rows_per_chunk"),
    Mutation(ROW_SUMS, BATCH_NORM, "CudaBatchNorm.*", "(sums[0] + sums[1]) + (sums[2] + sums[3])", "(sums[0] + sums[1]) + (sums[2] + sums[2])"),
    Mutation(DIVISOR, POOL, "CudaPool.*", "/ divisor_ + 1)", "/ divisor_)"),
    Mutation(BIAS, BIAS, "CudaBias.*", "return value > 0 ? value : 0.0f;", "return value < 0 ? 0.0f : value;"),
    Mutation(BIAS, BIAS, "CudaBias.*", "output <= 0", "output < 0"),
    Mutation(BIAS, BIAS, "CudaBias.*", "packs.remainder(item) * kLanes", "packs.remainder(item)"),
    Mutation(POOL, POOL, "CudaPool.*", "max.lanes[k] > value.lanes[k]", "max.lanes[k] >= value.lanes[k]"),
    Mutation(POOL, POOL, "CudaPool.*", "y < element.row ? columns.end", "y <= element.row ? columns.end"),
    Mutation(POOL_WINDOWS, POOL, "CudaPool.*", "stride.quotient(place - window) + 1", "stride.quotient(place - window)"),
    Mutation(POOL, POOL, "CudaPool.*", "kTiles ? share : sum.lanes[k] + share", "sum.lanes[k] + share"),
    Mutation(POOL, POOL, "CudaPool.*", "if (has_relu) lanes &= positive_lanes(max);", ""),
    Mutation(POOL, POOL, "CudaPool.*", "if (item >= inputs.count) return;", "", 2, sanitizer=ADDRESS),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "value == own && j < label", "value == own && j > label"),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "own == own && z[0] == z[0]", "own == own"),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "result = value;\n  __syncthreads();", "result = value;"),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "__syncthreads();  // the gradient may take the logits' place", ""),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "- of_every_class) * scale", ") * scale"),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "auxiliary_loss += entropy_loss", "auxiliary_loss = entropy_loss"),
    Mutation(SOFTMAX, SOFTMAX, "CudaSoftmaxCrossEntropy.*", "label >= 0 && label < num_classes", "label >= 0 && label <= num_classes"),
    Mutation(FILTER_ORDER, FILTER_ORDER, "CudaFilterOrder.*", "  __syncthreads();\n", ""),
    Mutation(FILTER_ORDER, FILTER_ORDER, "CudaFilterOrder.*", "row < t.rows && first_column + x < t.columns", "row < t.rows", sanitizer=ADDRESS),
    Mutation(LRN, LRN, "CudaLrn.*", "terms[place] = direct * input[e] * powers.reciprocal;\n  }\n  __syncthreads();", "terms[place] = direct * input[e] * powers.reciprocal;\n  }"),
    Mutation(LRN, LRN, "CudaLrn.*", "clear_margins(rows, terms);", ""),
    Mutation(LRN, LRN, "CudaLrn.*", "(rows.pixels + 1) * rows.radius", "rows.pixels * rows.radius"),
    Mutation(DROPOUT, DROPOUT, "CudaDropout.*", "word >> 8 < threshold", "word >> 8 <= threshold"),
    Mutation(DROPOUT, DROPOUT, "CudaDropout.*", "if (count > 3)", "if (count > 2)"),
    Mutation(MOVING_STATISTICS, MOVING_STATISTICS, "CudaMovingStatistics.*", "|| !is_finite(variance[c])", ""),
    Mutation(MOVING_STATISTICS, MOVING_STATISTICS, "CudaMovingStatistics.*", "rate < 1 ? static_cast<float>(from + rate * (batch - from)) : batch", "static_cast<float>(from + rate * (batch - from))"),
    Mutation(BATCH_NORM, BATCH_NORM, "CudaBatchNorm.*", "difference < 0 ? 0.0f : static_cast<float>(difference)", "static_cast<float>(difference)"),
    Mutation(BATCH_NORM, BATCH_NORM, "CudaBatchNorm.*", "output.lanes[k] > 0 ? gradient.lanes[k] : 0.0f", "gradient.lanes[k]"),
    Mutation(BATCH_NORM, BATCH_NORM, "CudaBatchNorm.*", "const bool is_stopped = has_relu &&", "const bool is_stopped = false &&"),
    Mutation(CONVOLUTION_LAYER, CONVOLUTION_LAYER, "CudaNet.*", "    fork_->join();\n", "", program="cuda_net"),
    Mutation(CONVOLUTION_LAYER, CONVOLUTION_LAYER, "CudaNet.*", "pass.workspace + branches_at_ + branch * branch_bytes_", "pass.workspace + filter_gradients_at_", program="cuda_net"),
    Mutation(CONCATENATION, CONCATENATION, "CudaConcatenation.*", "count % kWideLanes == 0 && ", ""),
]  # fmt: skip

STREAMED = "datasets/streamed_examples.cpp"


def streamed_mutation(old, new, orders="SIMT_STREAMS"):
    """A mutation of stream waits, detected by streams that run ahead."""
    return Mutation(STREAMED, STREAMED, "CudaStreamedExamples.*", old, new, orders=orders)


DATASETS_MUTATIONS = [
    streamed_mutation("before_burst_.hold_back(copies_);", ""),
    streamed_mutation("uploaded.hold_back(stream_);", ""),
    streamed_mutation("uploaded.wait();", ""),
    streamed_mutation("|| !slot_uploaded_[place_of(step)].has_come()", ""),
    streamed_mutation("before_burst_.record(stream_);", ""),
    streamed_mutation("std::int64_t{2} * max_steps", "std::int64_t{1} * max_steps", "SIMT_SEED"),
    streamed_mutation("slot_uploaded_[slot].record(copies_);", ""),
]

MUTATIONS = {"kernels": KERNELS_MUTATIONS, "nets": NETS_MUTATIONS, "datasets": DATASETS_MUTATIONS}


class Bench:
    """Compiles, links and runs."""

    def __init__(self, arguments):
        self.compiler = arguments.compiler
        self.launcher = [arguments.launcher] if arguments.launcher else []
        self.root = pathlib.Path(arguments.root)
        self.objects = arguments.objects
        self.link = arguments.link
        self.thrust = arguments.thrust
        self.folder = pathlib.Path(arguments.folder)
        if not self.folder.name.endswith("_mutant"):
            sys.exit(f"mutations.py: --folder {self.folder} is emptied first: its name must end in _mutant")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def compile(self, source, obj, *options):
        # The changed header precedes the unchanged one in the include order, which a compiler cache cannot see from its
        # records. A digest in the command tells it.
        changed = sorted(path for path in self.folder.rglob("*") if path.suffix in (".cuh", ".cu", ".h", ".cpp"))
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in changed)).hexdigest()
        # Files are new, but do not change during compilation, so ccache need not refuse them.
        sloppiness = [*os.environ.get("CCACHE_SLOPPINESS", "").split(","), "include_file_mtime", "include_file_ctime"]
        environment = dict(os.environ, CCACHE_SLOPPINESS=",".join(filter(None, sloppiness)))
        includes = [self.folder, self.root, self.root / "tests", self.root / "tests/simt/include", self.thrust]
        subprocess.run(
            [*self.launcher, self.compiler, "-std=c++20", "-O1", "-ffp-contract=off", "-Wno-unknown-pragmas", *options]
            + [f"-DMUTANT_{digest}"]
            + [f"-I{include}" for include in includes]
            + ["-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP"]
            + ["-x", "c++", "-c", source, "-o", obj],
            env=environment,
            check=True,
        )

    def program(self, source, sanitizer, tests_of):
        """Links `source`, recompiled with the changed files of the folder, with its test."""
        place = self.folder / source if (self.folder / source).exists() else self.root / source
        obj = self.folder / "mutant.o"
        self.compile(place, obj, *([sanitizer] if sanitizer else []))
        # Links the test of a kernel; if `source` is a test, it replaces its object. The kernel's original object stays
        # unused in a library.
        others = [other for other in self.objects if other.endswith(f"/{tests_of or pathlib.Path(source).stem}_test.cpp.o")]
        if not others and not source.startswith("tests/"):
            sys.exit(f"mutations.py: no object of the tests of {source} among --objects")
        program = self.folder / "mutant"
        sanitizers = [sanitizer] if sanitizer else []
        subprocess.run([self.compiler, *sanitizers, obj, *others, *self.link, "-o", program], check=True)
        return program

    def passes(self, program, tests, orders):
        """Returns true if the tests pass in both orders."""
        for order in ORDERS[orders]:
            environment = {name: value for name, value in os.environ.items() if name not in ORDERS}
            if order:
                environment[orders] = order
            result = subprocess.run(
                [program, f"--gtest_filter={tests}"], env=environment, capture_output=True, text=True, timeout=300
            )
            if result.returncode != 0:
                return False
            if " 0 tests" in result.stdout:
                sys.exit(f"mutations.py: no test matches {tests}")
        return True

    def is_seen(self, mutation):
        text = (self.root / mutation.file).read_text()
        copy = self.folder / mutation.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(mutation.old, mutation.new, 1))
        try:
            program = self.program(mutation.source, mutation.sanitizer, mutation.program)
            return not self.passes(program, mutation.tests, mutation.orders)
        finally:
            copy.unlink()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=MUTATIONS, required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--file")
    which.add_argument("--sample", type=int, metavar="N")
    which.add_argument("--list", action="store_true")
    parser.add_argument("--compiler")
    parser.add_argument("--launcher", default="")
    parser.add_argument("--root")
    parser.add_argument("--folder")
    parser.add_argument("--thrust")
    parser.add_argument("--objects", nargs="+")
    # Arguments after --link may begin with a dash.
    split = sys.argv.index("--link") if "--link" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:split])
    arguments.link = sys.argv[split + 1 :]
    missing = [f"--{name}" for name in ("compiler", "root", "folder", "thrust", "objects", "link") if not getattr(arguments, name)]
    if missing and not arguments.list:
        parser.error(f"missing: {', '.join(missing)}")
    return arguments


def chosen_mutations(arguments):
    mutations = MUTATIONS[arguments.of]
    if arguments.file:
        mutations = [mutation for mutation in mutations if mutation.file == arguments.file]
        if not mutations:
            sys.exit(f"mutations.py: --file: '{arguments.file}' has no mutations; --list prints the files that have")
        return mutations
    if not 1 <= arguments.sample <= len(mutations):
        sys.exit(f"mutations.py: --sample: {arguments.sample} is refused, expected 1 to {len(mutations)}")
    seed = int(os.environ.get("TERNGRAD_TEST_SEED", "1"))
    print(f"mutations.py: drawn by TERNGRAD_TEST_SEED={seed}")
    return random.Random(seed).sample(mutations, arguments.sample)


def check_places(root, mutations):
    """Exits if a text does not occur `times` times in its file; checks all mutations, not only the sample."""
    errors = []
    for mutation in mutations:
        times = (root / mutation.file).read_text().count(mutation.old)
        if times != mutation.times:
            errors.append(f"mutations.py: {mutation.file} has {times} of this, not {mutation.times}:\n{mutation.old}")
    if errors:
        sys.exit("\n".join(errors))


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(dict.fromkeys(mutation.file for mutation in MUTATIONS[arguments.of])))
        return 0
    check_places(pathlib.Path(arguments.root), MUTATIONS[arguments.of])
    mutations = chosen_mutations(arguments)
    num_missed = 0
    bench = Bench(arguments)
    unchanged = sorted({(m.source, m.tests, m.sanitizer, m.program, m.orders) for m in mutations})
    for source, tests, sanitizer, program, orders in unchanged:
        if not bench.passes(bench.program(source, sanitizer, program), tests, orders):
            print(f"mutations.py: {tests} fail although nothing is changed in {source} {sanitizer}")
            num_missed += 1
    for mutation in mutations:
        if not bench.is_seen(mutation):
            print(f"mutations.py: {mutation.tests} do not see this in {mutation.file}:\n{mutation.old}\n->\n{mutation.new}\n")
            num_missed += 1
    files = ", ".join(dict.fromkeys(mutation.file for mutation in mutations))
    print(f"mutations.py: {len(mutations)} mutations of {files}: {num_missed} failures")
    return 1 if num_missed else 0


if __name__ == "__main__":
    sys.exit(main())
