// MessageFilter: a view of gradient messages on their way out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace terngrad {

/// Called with each worker's gradient message between writing and sending, concurrently for several workers. Tests
/// damage messages with it. With a filter, messages are made and read even if this process has all workers.
using MessageFilter = std::function<void(int worker, std::span<std::uint8_t> message)>;

}  // namespace terngrad
