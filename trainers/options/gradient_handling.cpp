#include "trainers/options/gradient_handling.h"

#include <fmt/format.h>

#include <vector>

#include "compress/memory/memory_options.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/chosen_codecs.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// The memory of --codec_memory or --error_feedback; empty if neither sets one.
std::string asked_memory(const TrainOptions& o) {
  std::string by_feedback = o.error_feedback == ErrorFeedback::kAuto   ? ""
                            : o.error_feedback == ErrorFeedback::kTrue ? "ef"
                                                                       : "none";
  if (o.codec_memory == "auto") return by_feedback;
  if (!by_feedback.empty() && word_of(parse_memory(o.codec_memory).kind) != by_feedback) {
    TERNGRAD_THROW(UsageError, "--error_feedback ", word_of(o.error_feedback), ": contradicts --codec_memory ",
                   o.codec_memory, "; give one of them, or values that agree");
  }
  return o.codec_memory;
}

/// The memory of the first codec's preset, or the default of the codec, if no option sets one.
std::string own_memory(const std::vector<ChosenCodec>& codecs) {
  const ChosenCodec& codec = codecs.front();
  if (!codec.memory.empty()) return codec.memory;
  return codec.codec->traits().wants_error_feedback ? "ef" : "none";
}

}  // namespace

std::string memory_spec(const TrainOptions& o) {
  try {
    const std::string asked = asked_memory(o);
    if (o.codec_name() == "fp16" && asked.empty()) return "none";  // fp16 is for the vendor's all-reduce
    const std::vector<ChosenCodec> codecs = chosen_codecs(o);
    const std::string spec = asked.empty() ? own_memory(codecs) : asked;
    for (std::size_t rule = 1; rule < codecs.size(); ++rule) {
      const ChosenCodec& codec = codecs[rule];
      if (!codec.memory.empty() && codec.memory != "none") {
        TERNGRAD_THROW(UsageError, codec.given, ": is a preset with the memory ", codec.memory,
                       ", which is one for all tensors; accepted: ", to_string(codec.named), " beside --codec_memory ",
                       codec.memory);
      }
      if (asked.empty() && spec == "none" && codec.codec->traits().wants_error_feedback) {
        TERNGRAD_THROW(UsageError, codec.given, ": is made for error feedback, which is one for all tensors; accepted ",
                       "beside --error_feedback true or false");
      }
    }
    // A decay in the spec wins; option checks refuse a different --error_feedback_decay.
    const bool takes_decay = parse_memory(spec).kind == MemoryKind::kErrorFeedback &&
                             parse_codec_spec(spec).options.empty() && o.error_feedback_decay != 1;
    return canonical_memory(takes_decay ? fmt::format("{}:decay={}", spec, o.error_feedback_decay) : spec);
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, "--codec_memory ", o.codec_memory, ": ", error.what());
  }
}

std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                                const Device& device) {
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  if (o.nan_to_zero) transforms.push_back(make_nan_to_zero());
  if (o.weight_decay > 0) transforms.push_back(make_weight_decay(net, o.weight_decay, device));
  if (o.clip_by_global_norm > 0) {
    transforms.push_back(
        make_clip_by_global_norm(net.layout(), o.clip_by_global_norm, num_workers, o.on_nonfinite, device));
  }
  return transforms;
}

}  // namespace terngrad
