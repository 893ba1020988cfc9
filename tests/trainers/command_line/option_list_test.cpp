#include "trainers/command_line/option_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainers/command_line/option_set.h"

namespace terngrad::option_list_test {
namespace {

TEST(OptionList, HasEveryOptionAndRefusedName) {
  OptionSet options("test");
  std::string data_dir;
  bool quiet = false;
  double rate = 0.5;
  options.group("Where");
  options.add("data_dir", &data_dir, "folder").role(OptionRole::kPlace).alias("data").original("same");
  options.add_flag("quiet", &quiet, "print nothing").role(OptionRole::kReport).needs("a log", [] { return true; });
  options.add("rate", &rate, "learning rate", greater_than(0));
  options.refuse("job", "there is none");
  const nlohmann::json list = nlohmann::json::parse(option_list_json(options));
  ASSERT_EQ(list.at("options").size(), 3u) << "--help and such are none";
  const nlohmann::json folder = list.at("options").at(0);
  EXPECT_EQ(folder, nlohmann::json({{"name", "data_dir"},
                                    {"aliases", {"data"}},
                                    {"group", "Where"},
                                    {"help", "folder"},
                                    {"type", "text"},
                                    {"accepted", ""},
                                    {"value_name", "TEXT"},
                                    {"default", ""},
                                    {"role", "place"},
                                    {"identity", nlohmann::json::array()},
                                    {"same_on_all_ranks", false},
                                    {"compared", false},
                                    {"needs", nlohmann::json::array()},
                                    {"original", "same"},
                                    {"original_name", "data_dir"}}));
  EXPECT_EQ(list.at("options").at(1).at("type"), "flag");
  EXPECT_EQ(list.at("options").at(1).at("needs"), nlohmann::json({"a log"}));
  EXPECT_EQ(list.at("options").at(2).at("accepted"), "a number greater than 0");
  EXPECT_EQ(list.at("options").at(2).at("identity"), nlohmann::json({"rate"}));
  EXPECT_EQ(list.at("refused"), nlohmann::json({{{"name", "job"}, {"reason", "there is none"}}}));
}

TEST(OptionList, EveryCommandPrintsIt) {
  OptionSet options("test");
  const char* argv[] = {"program", "--list_options_json"};
  EXPECT_EQ(options.parse(2, argv).answer(80), option_list_json(options));
}

}  // namespace
}  // namespace terngrad::option_list_test
