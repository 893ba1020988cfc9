#include "trainers/options/train_option_groups.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "compress/memory/memory_options.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/async_options.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/chosen_codecs.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_options.h"

namespace terngrad {

void declare_compression_options(OptionSet& options, TrainOptions& o) {
  options.group("Compression");
  options
      .add("grad_bits", &o.grad_bits, "32 is fp32, 16 is bf16, 8, 4 and 2 are qsgd:bits=8 to 2, 1 is ternary",
           one_of({32, 16, 8, 4, 2, 1}))
      .identity(part_of("codec"))
      .original(
          "changed: 32, 16 (bf16), 8, 4, 2 (`qsgd:bits=8`, 4, 2) or 1; another number is refused, where the original "
          "takes all but 1 for 32. Other codecs: `--codec`");
  options
      .add(
          "codec", &o.codec,
          "codec by a spec, NAME or NAME:KEY=VALUE,KEY=VALUE (--list_codecs); auto: what --grad_bits says. fp16 is for "
          "--exchange vendor")
      .identity({.name = "--grad_bits or --codec", .value = [&o] { return o.codec_name(); }})
      .identity({.key = "codec_spec",
                 .value = [&o] { return codec_identity(o); },
                 .is_compared_last = true,
                 .advice = [](const std::string& recorded) { return "--codec " + recorded; }});
  options.add("codec_for", &o.codec_for, "PATTERN=SPEC for tensors by name (* and ?); repeatable, first match wins")
      .identity({.value = [&o] { return codec_rules_identity(o); }});
  declare_codec_list(options);
  options.add("clip_factor", &o.clip_factor, "clip at this many standard deviations; 0: no clipping", at_least(0))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .original(
          "same, 0 for none. The scaler is the paper's, min(max abs g, c sigma); `--scaler original` is c sigma, which "
          "is 0 for a tensor or block of one element, or of equal elements: these are sent as 0 as long as that lasts, "
          "one element for ever (said at the start of a run)");
  options
      .add("scaler", &o.scaler,
           "with clipping: paper is min(max|g|, c sigma), original is c sigma: 0 for a tensor of one element, for ever",
           one_of({"paper", "original"}))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .needs(clipping(o));
  options
      .add("scaler_sharing", &o.scaler_sharing, "how workers' scalers combine (mean is biased)",
           one_of({"max", "mean", "none"}))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .needs(several_workers(o));
  options
      .add("clip_scope", &o.clip_scope, "saturate at the shared scaler, or at the worker's own first",
           one_of({"shared", "local"}))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .needs(clipping(o))
      .needs(several_workers(o));
  options.add("scaler_scope", &o.scaler_scope, "what shares one scaler", one_of({"layer", "block", "model"}))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o));
  options
      .add("block_size", &o.block_size, "elements per scaler of --scaler_scope block; a multiple of 64",
           number_where("a positive multiple of 64",
                        [](double n) { return n >= 64 && n <= 0x1p50 && static_cast<std::int64_t>(n) % 64 == 0; }))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .needs("--scaler_scope block", [&o] {
        return any_ternary(chosen_codecs(o), [](const ChosenCodec& c) { return c.value("scope") == "block"; });
      });
  options
      .add("ternary_format", &o.ternary_format,
           "2 bits, 1.6 bits, a mask with signs, or an entropy-coded mask with signs",
           one_of({"t2", "t5", "tmask", "trans"}))
      .identity(part_of("codec_spec"))
      .needs(ternary_codec(o))
      .needs("an --exchange other than integer_sum, which sends packed sums of codes", [&o] {
        return o.exchange != TrainExchange::kIntegerSum ||
               any_ternary(chosen_codecs(o), [](const ChosenCodec& c) { return !c.codec->traits().summable; });
      });
  options.add("size_to_binarize", &o.size_to_binarize, "tensors with fewer elements travel as fp32", at_least(0))
      .needs(lossy_codec(o))
      .needs(own_exchange(o))
      .original("same: tensors with fewer elements travel as fp32");
  options
      .add_flag("quantize_logits", &o.quantize_logits,
                "compress the logits' weights and biases too, else they travel as fp32")
      .needs(lossy_codec(o))
      .needs(own_exchange(o))
      .original("same");
  options
      .add("floating_grad_epoch", &o.floating_grad_epoch,
           "the last of every this many epochs exchanges fp32 gradients; 0: none does",
           number_where("0, or an integer of at least 2 (1 would make every epoch floating, which is --grad_bits 32)",
                        [](double n) { return n == 0 || n >= 2; }))
      .needs("a codec other than fp32 for the other epochs", [&o] { return compresses(o); })
      .needs(own_exchange(o))
      .needs("--strategy replicated or ps: of async workers are in different epochs at a time",
             [&o] { return !is_async(o); })
      .original("works: the last of every N epochs exchanges fp32. In the original it has no effect");
  options
      .add("compress_from", &o.compress_from,
           "0-based step from which on gradients are compressed; every tensor travels as fp32 before", at_least(0))
      .needs("a codec other than fp32 for the steps from there on", [&o] { return compresses(o); })
      .needs(own_exchange(o))
      .needs("--strategy replicated or ps: of async workers are at different steps at a time",
             [&o] { return !is_async(o); })
      .needs(
          "steps from there on", [&o] { return o.compress_from < std::max<std::int64_t>(o.max_steps, 1); },
          [&o] { return "--max_steps " + std::to_string(o.max_steps) + " are over before"; });
  options
      .add("codec_memory", &o.codec_memory,
           "what workers keep of gradients from step to step: none, ef[:decay=1] (error feedback: what messages left "
           "out), momentum[:decay=0.9] (a moving average, which is encoded), dgc[:momentum=0.9,nesterov=false] "
           "(momentum before error feedback, for sparse codecs and --optimizer gd), loco[:decay=0.8,reset=1024] (a "
           "moving average of what messages left out, in 8 bits) or ef21[:decay=0] (an estimate of the gradient, or of "
           "its moving average; messages hold what it lacks); auto: what --codec stands for")
      .identity({.value = [&o] { return memory_spec(o); }});
  add_choice(options, "error_feedback", &o.error_feedback,
             "true: --codec_memory ef; false: none; auto: as --codec_memory says")
      .identity(part_of("codec_memory"));
  options
      .add("error_feedback_decay", &o.error_feedback_decay,
           "of what error feedback keeps, the part that counts in the next step", in_range(0, 1))
      .identity(part_of("codec_memory"))
      .needs("--codec_memory ef (--error_feedback true)",
             [&o] { return parse_memory(memory_spec(o)).kind == MemoryKind::kErrorFeedback; });
}

}  // namespace terngrad
