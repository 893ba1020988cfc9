#include "trainers/io/xxhash64.h"

#include <bit>

// Header-only use of the library: nothing to link or to find in an installation. Without XXH3, which takes most of the
// compilation time.
#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include <xxhash.h>

namespace terngrad {

static_assert(std::endian::native == std::endian::little, "integers are added as they lie in memory");

struct Xxhash64::State {
  XXH64_state_t of_library;
};

Xxhash64::Xxhash64() : state_(std::make_unique<State>()) { XXH64_reset(&state_->of_library, 0); }

Xxhash64::~Xxhash64() = default;

Xxhash64& Xxhash64::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->of_library, bytes.data(), bytes.size());
  return *this;
}

std::uint64_t Xxhash64::value() const { return XXH64_digest(&state_->of_library); }

}  // namespace terngrad
