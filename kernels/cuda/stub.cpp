// Stands in for the CUDA backend in builds without it: there is no device, so nothing else can be reached.
#include "kernels/cuda/aggregate.h"
#include "kernels/cuda/bfloat16.h"
#include "kernels/cuda/encode_blocks.h"
#include "kernels/cuda/float16.h"
#include "kernels/cuda/float_payload.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/pack_sums.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scaler_sharing.h"
#include "kernels/cuda/statistics.h"
#include "kernels/cuda/ternarize.h"
#include "kernels/cuda/ternary_pack.h"
#include "kernels/cuda/transform.h"
#include "kernels/cuda/tree_sum.h"
#include "kernels/errors.h"

namespace terngrad::cuda {
namespace {

[[noreturn]] void not_built(const char* what) {
  TERNGRAD_THROW(NotSupported, "[", what, "] this build has no CUDA backend (TERNGRAD_CUDA)");
}

}  // namespace

int num_devices() { return 0; }
std::string why_no_device() { return "this build has no CUDA backend (TERNGRAD_CUDA)"; }
void* allocate(int, std::size_t) { not_built("Buffer"); }
void deallocate(int, void*) noexcept {}
std::shared_ptr<void> make_stream(int) { not_built("Stream"); }
void synchronize(const Stream&) { not_built("Stream"); }
bool is_done(const Stream&) { not_built("Stream"); }
bool is_capturing(const Stream&) { not_built("Stream"); }
void copy(void*, const void*, std::size_t, const Stream&) { not_built("copy"); }
void fill_zero(void*, std::size_t, const Stream&) { not_built("fill_zero"); }
std::shared_ptr<void> make_event(int) { not_built("StreamTimer"); }
void record(void*, const Stream&) { not_built("StreamTimer"); }
double seconds_between(void*, void*) { not_built("StreamTimer"); }
std::shared_ptr<void> make_meeting_point(int) { not_built("StreamFork"); }
void wait_for(void*, const Stream&) { not_built("StreamFork"); }
void begin_capture(const Stream&) { not_built("CapturedGraph"); }
std::shared_ptr<void> end_capture(const Stream&) { not_built("CapturedGraph"); }
void abandon_capture(const Stream&) noexcept {}
void launch_graph(void*, const Stream&) { not_built("CapturedGraph"); }
std::string device_name(int) { not_built("Device"); }
std::string device_uuid(int) { not_built("Device"); }
std::string versions() { not_built("Device"); }
std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice>, const Device&) {
  not_built("statistics");
}
std::shared_ptr<EncodeBlocksRunner> make_encode_blocks_runner(const Device&) { not_built("encode_blocks"); }
std::shared_ptr<FloatPayloadRunner> make_float_payload_runner(FloatPayload, const Device&) {
  not_built("float_payload");
}
void share_scalers(const ScalerSharingTask&, const Stream&) { not_built("scaler_sharing"); }
void flag_whole_segments(float*, std::int64_t, const std::int64_t*, std::int64_t, std::int64_t, const Stream&) {
  not_built("scaler_sharing");
}
std::shared_ptr<TernarizeRunner> make_ternarize_runner(const Device&) { not_built("ternarize"); }

void update_gd(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("update_gd");
}
void update_momentum(std::span<float>, std::span<float>, std::span<const float>, float, float, const Stream&,
                     const StepScalars&) {
  not_built("update_momentum");
}
void update_adam(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, float,
                 const AdamConstants&, const Stream&, const StepScalars&) {
  not_built("update_adam");
}
void update_rmsprop(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, float,
                    const RmspropConstants&, const Stream&, const StepScalars&) {
  not_built("update_rmsprop");
}
void update_ema(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("update_ema");
}
void add_weight_decay(std::span<float>, std::span<const float>, float, const Stream&, const StepScalars&) {
  not_built("add_weight_decay");
}

void find_nonfinite(std::span<const float>, std::uint32_t*, const Stream&) { not_built("find_nonfinite"); }
void zero_nonfinite(std::span<float>, std::int64_t*, const Stream&) { not_built("zero_nonfinite"); }
void scale(std::span<float>, float, const float*, const Stream&) { not_built("scale"); }
void multiply(std::span<const float>, std::span<const float>, std::span<float>, const Stream&) {
  not_built("multiply");
}

void encode_bfloat16(std::span<const float>, std::span<std::uint16_t>, const Stream&) { not_built("encode_bfloat16"); }
void decode_bfloat16(std::span<const std::uint16_t>, std::span<float>, const Stream&) { not_built("decode_bfloat16"); }
void round_to_bfloat16(std::span<float>, const Stream&) { not_built("round_to_bfloat16"); }
void encode_float16(std::span<const float>, std::span<std::uint16_t>, const Stream&) { not_built("encode_float16"); }
void decode_float16(std::span<const std::uint16_t>, std::span<float>, const Stream&) { not_built("decode_float16"); }
void round_to_float16(std::span<float>, const Stream&) { not_built("round_to_float16"); }
std::shared_ptr<CodeSumRunner> make_code_sum_runner(const Device&) { not_built("aggregate"); }
std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device&) { not_built("tree sum"); }
void unpack_codes(const PackedCodes&, std::int64_t, std::span<std::int16_t>, const Stream&) { not_built("unpack"); }
std::shared_ptr<SumPackRunner> make_sum_pack_runner(int, const Device&) { not_built("lanes"); }
void add_lanes(std::span<std::uint64_t>, std::span<const std::uint64_t>, const Stream&) { not_built("lanes"); }

}  // namespace terngrad::cuda
