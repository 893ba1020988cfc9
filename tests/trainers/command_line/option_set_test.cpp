#include "trainers/command_line/option_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad::option_set_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TemporaryDirectory;

struct Values {
  int grad_bits = 32;
  int num_gpus = 1;
  std::int64_t max_steps = 10;
  std::uint64_t seed = 1;
  double clip_factor = 0.0;
  double momentum = 0.9;
  std::string dataset = "synthetic";
  std::string optimizer = "momentum";
  std::vector<std::string> codec_for;
  bool quantize_logits = false;
};

class Options : public ::testing::Test {
 protected:
  Options() {
    options.group("Compression");
    options.add("grad_bits", &o.grad_bits, "bits per gradient element", one_of({1, 2, 4, 8, 16, 32}));
    options.add("clip_factor", &o.clip_factor, "clip at this many standard deviations", at_least(0));
    options.add_flag("quantize_logits", &o.quantize_logits, "compress the logits too");
    options.add("codec_for", &o.codec_for, "PATTERN=CODEC", text_where("PATTERN=CODEC", [](const std::string& text) {
                  return text.find('=') != std::string::npos;
                }));
    options.group("Training");
    options.add("num_gpus", &o.num_gpus, "devices");
    options.add("max_steps", &o.max_steps, "steps", at_least(1));
    options.add("seed", &o.seed, "seed of everything");
    options.add("momentum", &o.momentum, "of the optimizer", from_up_to(0, 1));
    options.add("dataset", &o.dataset, "data set").alias("dataset_name");
    options.add("optimizer", &o.optimizer, "update rule", one_of({"gd", "momentum", "adam"}));
  }

  ParseResult parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return options.parse(static_cast<int>(arguments.size()), arguments.data());
  }
  std::string refusal(std::vector<const char*> arguments) {
    const std::string message = message_of<UsageError>([&] { parse(std::move(arguments)); });
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    return message;
  }
  std::string config_refusal(const std::string& text) {
    path = folder.write("run.cfg", text).string();
    return refusal({"--config", path.c_str()});
  }

  const TemporaryDirectory folder;
  std::string path;
  Values o;
  OptionSet options{"usage: program [options]"};
};

TEST_F(Options, DefaultsAreTheValuesOfTheVariables) {
  const ParseResult result = parse({});
  EXPECT_FALSE(result.help_requested);
  EXPECT_FALSE(result.version_requested);
  EXPECT_EQ(o.grad_bits, 32);
  EXPECT_FALSE(options.was_set("grad_bits"));
}

TEST_F(Options, EveryTypeInBothForms) {
  parse({"--grad_bits=1", "--max_steps", "5000000000", "--seed=18446744073709551615", "--clip_factor", "2.5",
         "--dataset", "mnist", "--quantize_logits", "--codec_for=a=b", "--codec_for", "c=d", "--momentum=1e-3"});
  EXPECT_EQ(o.grad_bits, 1);
  EXPECT_EQ(o.max_steps, 5000000000);
  EXPECT_EQ(o.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(o.clip_factor, 2.5);
  EXPECT_EQ(o.momentum, 1e-3);
  EXPECT_EQ(o.dataset, "mnist");
  EXPECT_TRUE(o.quantize_logits);
  EXPECT_THAT(o.codec_for, ElementsAre("a=b", "c=d"));
  EXPECT_TRUE(options.was_set("grad_bits"));
  EXPECT_FALSE(options.was_set("num_gpus"));
}

TEST_F(Options, NegativeNumbersAreValues) {
  parse({"--num_gpus", "-1"});
  EXPECT_EQ(o.num_gpus, -1);
  parse({"--num_gpus=-2"});
  EXPECT_EQ(o.num_gpus, -2);
}

// The forms of TensorFlow's flags, in which the original's commands are printed.
TEST_F(Options, FlagsAreBareOrTrueOrFalse) {
  parse({"--quantize_logits"});
  EXPECT_TRUE(o.quantize_logits);
  parse({"--noquantize_logits"});
  EXPECT_FALSE(o.quantize_logits);
  for (const char* word : {"true", "True", "TRUE", "1"}) {
    o.quantize_logits = false;
    parse({"--quantize_logits", word, "--seed", "3"});
    EXPECT_TRUE(o.quantize_logits) << word;
    EXPECT_EQ(o.seed, 3u);
  }
  for (const char* word : {"false", "False", "FALSE", "0"}) {
    o.quantize_logits = true;
    const std::string argument = std::string("--quantize_logits=") + word;
    parse({argument.c_str()});
    EXPECT_FALSE(o.quantize_logits) << word;
  }
  EXPECT_EQ(refusal({"--quantize_logits=yes"}), "--quantize_logits: 'yes' is refused, expected true or false");
  for (const char* next : {"yes", "mnist", "-1"}) {
    EXPECT_THAT(refusal({"--quantize_logits", next}), HasSubstr("unexpected argument"));
  }
  for (const char* negated : {"--noseed", "--nohelp", "--noquantize_logits=true"}) {
    EXPECT_THAT(refusal({negated}), HasSubstr("unknown option"));
  }
  EXPECT_THAT(refusal({"--dataset", "--quantize_logits"}), HasSubstr("--dataset: needs a value"));
}

TEST_F(Options, HelpAndVersionDoNotHideErrors) {
  EXPECT_TRUE(parse({"--help"}).help_requested);
  EXPECT_TRUE(parse({"-h"}).help_requested);
  EXPECT_TRUE(parse({"--version"}).version_requested);
  EXPECT_THAT(refusal({"--help", "--grad_bits=3"}), HasSubstr("--grad_bits"));
  EXPECT_THAT(refusal({"--grad_bots=3", "--help"}), HasSubstr("--grad_bots"));
}

TEST_F(Options, QuestionsAreAnsweredAndAreNoSettings) {
  options.add_question("list", "print the list", [](int width) { return "a list of width " + std::to_string(width); });
  const std::size_t num_settings = options.values().size();
  EXPECT_FALSE(parse({"--seed=2"}).answer);
  ASSERT_TRUE(parse({"--list"}).answer);
  EXPECT_EQ(parse({"--list", "--seed=2"}).answer(50), "a list of width 50");
  EXPECT_FALSE(parse({"--list", "--list=false"}).answer);
  EXPECT_THAT(refusal({"--list=yes"}), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal({"--list", "--grad_bits=3"}), HasSubstr("--grad_bits"));
  EXPECT_THAT(config_refusal("list"), HasSubstr("belongs on the command line"));
  EXPECT_EQ(options.values().size(), num_settings);
  EXPECT_THAT(options.help(), AllOf(HasSubstr("--list "), Not(HasSubstr("--list (="))));
}

TEST_F(Options, UnknownOptionNamesTheNearest) {
  EXPECT_EQ(refusal({"--grad_bit", "1"}), "--grad_bit: unknown option; did you mean --grad_bits?");
  EXPECT_EQ(refusal({"--gradbits=1"}), "--gradbits: unknown option; did you mean --grad_bits?");
  EXPECT_EQ(refusal({"--zzzzzzz"}), "--zzzzzzz: unknown option; --help lists all options");
  EXPECT_THAT(refusal({"--=1"}), HasSubstr("'--=1'"));
}

TEST_F(Options, NamesAreNotCompleted) { EXPECT_THAT(refusal({"--quantize"}), HasSubstr("unknown option")); }

TEST_F(Options, BadNumbersAreRefused) {
  for (const char* text :
       {"12abc", "", " 1", "1 ", "0x10", "1e2", "1.0", "+1", "99999999999", "-99999999999", "nan", "--"}) {
    EXPECT_EQ(refusal({"--num_gpus", text}).substr(0, 10), "--num_gpus") << text;
  }
  EXPECT_EQ(refusal({"--num_gpus=12abc"}),
            "--num_gpus: '12abc' is refused, expected an integer from -2147483648 to 2147483647");
  for (const char* text : {"1.5x", "-0.1", "one"}) {
    EXPECT_EQ(refusal({"--clip_factor", text}),
              std::string("--clip_factor: '") + text + "' is refused, expected a number of at least 0");
  }
  EXPECT_THAT(refusal({"--seed", "-1"}), HasSubstr("expected an integer from 0 to 18446744073709551615"));
  EXPECT_THAT(refusal({"--max_steps", "0"}), HasSubstr("is refused, expected an integer of at least 1"));
  EXPECT_THAT(refusal({"--momentum", "1"}), HasSubstr("a number from 0 up to, but not, 1"));
  EXPECT_EQ(o.clip_factor, 0.0) << "a refused value is not stored";
}

TEST_F(Options, RefusalsSayWhatIsWrongWithANumber) {
  const std::map<std::string, std::string> integers = {{"99999999999", "greater than 2147483647"},
                                                       {"-99999999999", "less than -2147483648"},
                                                       {"1.5", "not an integer"},
                                                       {"1e2", "not written as an integer"}};
  for (const auto& [text, problem] : integers) {
    EXPECT_EQ(refusal({"--num_gpus", text.c_str()}), "--num_gpus: '" + text + "' is refused: " + problem +
                                                         "; expected an integer from -2147483648 to 2147483647");
  }
  const std::map<std::string, std::string> reals = {
      {"1e999", "out of the range of 64-bit floats"}, {"nan", "not finite"}, {"-inf", "not finite"}};
  for (const auto& [text, problem] : reals) {
    EXPECT_EQ(refusal({"--clip_factor", text.c_str()}),
              "--clip_factor: '" + text + "' is refused: " + problem + "; expected a number of at least 0");
  }
}

TEST_F(Options, ValuesOutsideTheAcceptedOnesAreRefused) {
  EXPECT_EQ(refusal({"--grad_bits", "3"}), "--grad_bits: '3' is refused, expected one of 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(refusal({"--optimizer", "sgd"}), "--optimizer: 'sgd' is refused, expected one of gd, momentum, adam");
  EXPECT_EQ(refusal({"--codec_for", "x"}), "--codec_for: 'x' is refused, expected PATTERN=CODEC");
}

TEST_F(Options, OfARepeatedOptionTheLastValueCountsAlsoByItsOtherName) {
  parse({"--seed=1", "--quantize_logits", "--seed=2", "--dataset=mnist", "--dataset_name", "cifar10",
         "--quantize_logits=false"});
  EXPECT_EQ(o.seed, 2u);
  EXPECT_EQ(o.dataset, "cifar10");
  EXPECT_FALSE(o.quantize_logits);
  EXPECT_THAT(refusal({"--max_steps=0", "--max_steps=2"}), HasSubstr("--max_steps: '0' is refused"));
}

TEST_F(Options, MissingValueIsRefused) {
  EXPECT_EQ(refusal({"--seed"}), "--seed: needs a value, as in --seed VALUE");
  EXPECT_THAT(refusal({"--dataset="}), HasSubstr("--dataset: needs a value"));
  EXPECT_THAT(refusal({"--dataset", "--seed", "1"}), HasSubstr("--dataset: needs a value"));
  EXPECT_THAT(refusal({"--dataset", "--unknown"}), HasSubstr("--dataset: needs a value"));
  parse({"--dataset=--odd"});
  EXPECT_EQ(o.dataset, "--odd");
}

TEST_F(Options, StrayArgumentsAreRefused) {
  EXPECT_EQ(refusal({"mnist"}), "unexpected argument 'mnist': expected --name value or --name=value");
  EXPECT_THAT(refusal({"--seed=1", "--", "--x"}), HasSubstr("unexpected argument"));
  EXPECT_THAT(refusal({"-seed=1"}), HasSubstr("names begin with two dashes"));
  EXPECT_THAT(refusal({""}), HasSubstr("unexpected argument ''"));
}

TEST_F(Options, ConfigFileSetsWhatTheCommandLineDoesNot) {
  path = folder
             .write("run.cfg",
                    "# a comment\n\n grad_bits = 1 \r\nseed=7\nquantize_logits\ndataset = my set\n"
                    "codec_for = a=b\ncodec_for = c=d\n")
             .string();
  parse({"--config", path.c_str(), "--seed=9"});
  EXPECT_EQ(o.grad_bits, 1);
  EXPECT_EQ(o.seed, 9u);
  EXPECT_TRUE(o.quantize_logits);
  EXPECT_EQ(o.dataset, "my set");
  EXPECT_THAT(o.codec_for, ElementsAre("a=b", "c=d"));
  parse({"--config", path.c_str(), "--codec_for=e=f"});
  EXPECT_THAT(o.codec_for, ElementsAre("e=f"));
}

TEST_F(Options, LaterConfigFilesOverrideEarlierOnes) {
  path = folder.write("base.cfg", "seed = 7\ngrad_bits = 1\ncodec_for = a=b\n").string();
  const std::string later = folder.write("later.cfg", "seed = 8\nmax_steps = 3\ncodec_for = c=d\n").string();
  parse({"--max_steps=4", "--config", path.c_str(), "--config", later.c_str()});
  EXPECT_EQ(o.seed, 8u);
  EXPECT_EQ(o.grad_bits, 1);
  EXPECT_EQ(o.max_steps, 4);
  EXPECT_THAT(o.codec_for, ElementsAre("c=d"));
}

TEST_F(Options, ConfigFileErrorsNameFileAndLine) {
  const std::string file = (folder / "run.cfg").string();
  EXPECT_EQ(config_refusal("seed = 1\ngrad_bit = 1\n"), file + ":2: grad_bit: unknown option; did you mean grad_bits?");
  EXPECT_EQ(config_refusal("\n\ngrad_bits = 3"),
            file + ":3: grad_bits: '3' is refused, expected one of 1, 2, 4, 8, 16, 32");
  EXPECT_THAT(config_refusal("seed"), HasSubstr(":1: seed: needs a value, as in seed = VALUE"));
  EXPECT_THAT(config_refusal("seed = 1\nseed = 2"), HasSubstr(":2: seed: given twice in this file"));
  EXPECT_THAT(config_refusal("seed ="), HasSubstr(":1: seed: '' is refused"));
  EXPECT_THAT(config_refusal("config = x"), HasSubstr("belongs on the command line"));
  EXPECT_THAT(config_refusal("--seed = 1"), HasSubstr("did you mean seed?"));
  EXPECT_THAT(refusal({"--config", "/none/x"}), HasSubstr("--config: cannot open '/none/x'"));
}

TEST_F(Options, HelpGroupsOptionsAndShowsDefaults) {
  const std::string help = options.help();
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--help arg")));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--version arg")));
  EXPECT_THAT(help, HasSubstr("usage: program"));
  EXPECT_THAT(help, HasSubstr("Compression:\n"));
  EXPECT_THAT(help, HasSubstr("--grad_bits 1|2|4|8|16|32 (=32)"));
  EXPECT_THAT(help, HasSubstr("--clip_factor N (=0)"));
  EXPECT_THAT(help, HasSubstr("--quantize_logits [=true|false] (=false)"));
  EXPECT_THAT(help, HasSubstr("(also --dataset_name)"));
  EXPECT_THAT(help, HasSubstr("--codec_for TEXT (=none)"));
  EXPECT_LT(help.find("Compression"), help.find("Training"));
  EXPECT_LT(help.find("Training"), help.find("--version"));
  EXPECT_THAT(help, HasSubstr("-h, --help"));
}

TEST_F(Options, HelpFitsItsWidth) {
  for (const int width : {40, 80, 120}) {
    std::istringstream lines(options.help(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(static_cast<int>(line.size()), width) << line;
  }
}

TEST_F(Options, DefaultsThatDependOnOtherOptions) {
  parse({"--momentum=0.5"});
  options.set_default("momentum", "0.8");
  options.set_default("max_steps", "77");
  EXPECT_EQ(o.momentum, 0.5) << "what the user set stays";
  EXPECT_EQ(o.max_steps, 77);
  EXPECT_FALSE(options.was_set("max_steps"));
  EXPECT_THAT(options.help(), HasSubstr("--momentum N (=0.8)"));
  EXPECT_THROW(options.set_default("max_steps", "0"), InvalidArgument);
  EXPECT_THROW(options.set_default("none", "0"), InvalidArgument);
}

TEST_F(Options, ListsValuesInOrderOfDeclaration) {
  parse({"--num_gpus=3", "--codec_for=a=b"});
  const std::vector<OptionValue> values = options.values();
  ASSERT_EQ(values.size(), 10u);
  EXPECT_EQ(values[0].name, "grad_bits");
  EXPECT_EQ(values[0].value, OptionScalar(std::int64_t{32}));
  EXPECT_FALSE(values[0].set_by_user);
  EXPECT_EQ(values[3].value, OptionScalar(std::vector<std::string>{"a=b"}));
  EXPECT_EQ(values[4].value, OptionScalar(std::int64_t{3}));
  EXPECT_TRUE(values[4].set_by_user);
}

TEST_F(Options, DeclarationMistakesAreRefused) {
  int value = 5;
  EXPECT_THROW(options.add("seed", &value, ""), InvalidArgument);
  EXPECT_THROW(options.add("dataset_name", &value, ""), InvalidArgument);
  EXPECT_THROW(options.add("five", &value, "", one_of({1, 2})), InvalidArgument);
  EXPECT_THROW(options.declaration("dataset").alias("seed"), InvalidArgument);
  EXPECT_THROW(options.declaration("none"), InvalidArgument);
  EXPECT_THROW(options.was_set("none"), InvalidArgument);
}

TEST(EditDistance, KnownAnswers) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
}

TEST(OptionSet, RefusedNamesGiveTheReason) {
  const TemporaryDirectory folder;
  const auto parse = [](std::vector<const char*> arguments) {
    OptionSet options("usage");
    options.refuse("readers", "there is nothing to read");
    arguments.insert(arguments.begin(), "program");
    options.parse(static_cast<int>(arguments.size()), arguments.data());
  };
  for (const char* argument : {"--readers", "--readers=4"}) {
    EXPECT_EQ(message_of<UsageError>([&] { parse({argument}); }), "--readers: refused: there is nothing to read");
  }
  const std::string file = folder.write("config", "readers = 4\n").string();
  EXPECT_EQ(message_of<UsageError>([&] {
              parse({"--config", file.c_str()});
            }),
            file + ":1: readers: refused: there is nothing to read");
  OptionSet options("usage");
  int value = 0;
  options.add("taken", &value, "a number");
  EXPECT_THROW(options.refuse("taken", ""), InvalidArgument);
}

TEST_F(Options, WhatTheUserChangedAndNeedsSomethingElseIsRefused) {
  bool on_gpu = false;
  for (const char* name : {"momentum", "num_gpus", "quantize_logits", "codec_for"}) {
    options.declaration(name).needs("--device cuda", [&] { return on_gpu; });
  }
  const auto refused = [&](const std::vector<const char*>& arguments) {
    Values values = o;
    const std::string message = message_of<UsageError>([&] {
      parse(arguments);
      options.require_needs();
    });
    o = values;
    return message;
  };
  options.set_default("momentum", "0.8");
  parse({"--seed=3"});
  EXPECT_NO_THROW(options.require_needs());
  EXPECT_EQ(refused({"--num_gpus=2"}), "--num_gpus 2: needs --device cuda; accepted here: 1, its default");
  on_gpu = true;
  EXPECT_NO_THROW(options.require_needs());
  on_gpu = false;
  parse({"--num_gpus=1"});
  EXPECT_EQ(refused({"--quantize_logits"}),
            "--quantize_logits=true: needs --device cuda; accepted here: false, its default");
  parse({"--quantize_logits=false"});
  EXPECT_EQ(refused({"--codec_for=a=b"}), "--codec_for a=b: needs --device cuda");
}

TEST_F(Options, TheFirstNeedThatIsNotMetIsNamedWithItsDetail) {
  options.declaration("seed")
      .needs("a beginning", [] { return true; })
      .needs(
          "an end", [] { return false; }, [&] { return "there are " + std::to_string(o.max_steps); })
      .needs("more", [] { return false; });
  parse({"--seed=3"});
  EXPECT_EQ(message_of<UsageError>([&] { options.require_needs(); }),
            "--seed 3: needs an end; there are 10; accepted here: 1, its default");
}

TEST_F(Options, TheDefaultIsAsGoodAsNotGiven) {
  for (const char* name : {"seed", "momentum", "clip_factor", "quantize_logits", "max_steps"}) {
    options.declaration(name).needs("more", [] { return false; });
  }
  path = folder.write("run.cfg", "seed = 3\nclip_factor = 0.0\n").string();
  parse({"--config", path.c_str(), "--seed=1", "--momentum=0.90", "--quantize_logits=false", "--max_steps=77"});
  EXPECT_THAT(message_of<UsageError>([&] { options.require_needs(); }), HasSubstr("--max_steps 77:"));
  options.set_default("max_steps", "77");
  EXPECT_NO_THROW(options.require_needs());
  // A value changed by the command does not count as set by the user.
  o.momentum = 0;
  EXPECT_NO_THROW(options.require_needs());
  EXPECT_TRUE(options.was_set("momentum"));
  EXPECT_FALSE(options.was_changed("momentum"));
  options.set_default("momentum", "0.5");
  EXPECT_TRUE(options.was_changed("momentum"));
}

TEST_F(Options, TheIdentityHasWhatDecidesBits) {
  options.declaration("num_gpus").role(OptionRole::kSpeed);
  options.declaration("dataset").role(OptionRole::kPlace);
  options.declaration("codec_for")
      .identity({.key = "spec", .value = [&] { return "of " + o.codec_for.at(0); }, .is_compared_last = true});
  options.declaration("optimizer").identity({.key = "rule", .name = "the rule"}).identity(part_of("other"));
  parse({"--codec_for=a=b", "--clip_factor=2.50", "--quantize_logits", "--seed=4"});
  options.set_default("momentum", "0.8");
  std::string text;
  for (const IdentityEntry& entry : options.identity()) {
    text += entry.name + " " + entry.key + "=" + entry.value + "\n";
  }
  EXPECT_EQ(text,
            "--grad_bits grad_bits=32\n"
            "--clip_factor clip_factor=2.5\n"
            "--quantize_logits quantize_logits=true\n"
            "--max_steps max_steps=10\n"
            "--seed seed=4\n"
            "--momentum momentum=0.8\n"
            "the rule rule=momentum\n"
            "--codec_for spec=of a=b\n");
}

TEST_F(Options, PositionalArgumentsStandAnywhereAndAreNeeded) {
  std::string in, out;
  options.add_positional("IN", &in, "file to read");
  options.add_positional("OUT", &out, "file to write");
  EXPECT_EQ(parse({"a", "--quantize_logits", "b", "--seed", "7"}).num_positionals, 2u);
  EXPECT_EQ(in, "a");
  EXPECT_EQ(out, "b");
  EXPECT_TRUE(o.quantize_logits);
  EXPECT_EQ(o.seed, 7u);
  EXPECT_EQ(refusal({"a"}), "OUT is missing: expected IN OUT; --help says more");
  EXPECT_EQ(refusal({}), "IN is missing: expected IN OUT; --help says more");
  EXPECT_THAT(refusal({"a", "b", "c"}), HasSubstr("unexpected argument 'c'"));
  EXPECT_THAT(refusal({"a", "-b"}), HasSubstr("unexpected argument '-b'"));
  EXPECT_TRUE(parse({"--help"}).help_requested);
  EXPECT_THAT(options.help(80), HasSubstr("Arguments:\n  IN "));
}

}  // namespace
}  // namespace terngrad::option_set_test
