// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/codes/cuda/code_sum.h"
#include "kernels/codes/cuda/codebook_codes.h"
#include "kernels/codes/cuda/encode_blocks.h"
#include "kernels/codes/cuda/exponents.h"
#include "kernels/codes/cuda/float_payload.h"
#include "kernels/codes/cuda/fp8.h"
#include "kernels/codes/cuda/levels.h"
#include "kernels/codes/cuda/pack_sums.h"
#include "kernels/codes/cuda/rotate.h"
#include "kernels/codes/cuda/signs.h"
#include "kernels/codes/cuda/ternarize.h"
#include "kernels/codes/cuda/ternary_pack.h"
#include "kernels/codes/cuda/tree_sum.h"
#include "kernels/codes/cuda/votes.h"
#include "kernels/runtime/cuda/not_built.h"

namespace terngrad::cuda {

std::shared_ptr<EncodeBlocksRunner> make_encode_blocks_runner(const Device&) { not_built("encode_blocks"); }
std::shared_ptr<FloatPayloadRunner> make_float_payload_runner(FloatPayload, const Device&) {
  not_built("float_payload");
}
std::shared_ptr<TernarizeRunner> make_ternarize_runner(const Device&) { not_built("ternarize"); }
std::shared_ptr<CodebookRunner> make_codebook_runner(const Device&) { not_built("codebook"); }
std::shared_ptr<ExponentsRunner> make_exponents_runner(const Device&) { not_built("exponents"); }
std::shared_ptr<Fp8Runner> make_fp8_runner(const Device&) { not_built("fp8"); }
std::shared_ptr<RotateRunner> make_rotate_runner(std::int64_t, const Device&) { not_built("rotate"); }
std::shared_ptr<SignRunner> make_sign_runner(const Device&) { not_built("signs"); }
std::shared_ptr<LevelsRunner> make_levels_runner(const Device&) { not_built("levels"); }
std::shared_ptr<CodeSumRunner> make_code_sum_runner(const Device&) { not_built("aggregate"); }
std::shared_ptr<VoteRunner> make_vote_runner(const Device&) { not_built("votes"); }
std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device&) { not_built("tree sum"); }
void unpack_codes(const PackedCodes&, std::int64_t, std::span<std::int16_t>, const Stream&) { not_built("unpack"); }
std::shared_ptr<SumPackRunner> make_sum_pack_runner(int, int, const Device&) { not_built("lanes"); }
void add_lanes(std::span<std::uint64_t>, std::span<const std::uint64_t>, const Stream&) { not_built("lanes"); }

}  // namespace terngrad::cuda
