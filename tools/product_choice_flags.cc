#include "zeroshard/tools/product_choice_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/flags/writable.h"
#include "zeroshard/trainer/product_choices.h"

namespace zeroshard::tools {
namespace {

constexpr char kTake[] = "product_choices", kSave[] = "save_product_choices";

absl::Status OnGpusAlone(const char* flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", path, ": products have a choice of algorithms on GPUs alone; leave it out, or take --device=cuda"));
}

}  // namespace

void ProductChoiceFlags::Register(FlagSet& set) {
  set.Text(
      kTake, &product_choices_,
      {.group = "PRODUCTS: how GPUs compute them",
       .text =
           "Products run by the algorithms in this file, which an earlier run saved, and have its bits; model and batch,\n"
           "      the cards' architecture and cuBLASLt's version have to be the same.",
       .example = "--product_choices=run_config.json.products",
       .default_text = "what cuBLASLt chooses on rank 0"});
  set.Text(kSave, &save_product_choices_,
           {.group = "OUTPUT: what is written and shown",
            .text = "Keeps the algorithms that products run by, for --product_choices.",
            .example = "--save_product_choices=run.products",
            .default_text = "beside --save_config=FILE, in FILE.products; without that they are not kept"});
}

absl::Status ProductChoiceFlags::Fill(const JobPlan& plan, const std::string& save_config,
                                      trainer::TrainOptions& options) const {
  if (!plan.on_gpus()) {
    ZS_RETURN_IF_ERROR(OnGpusAlone(kTake, product_choices_));
    return OnGpusAlone(kSave, save_product_choices_);
  }
  if (plan.rank != 0) return absl::OkStatus();
  options.product_choices_path = UserPath(save_product_choices_);
  const bool beside = save_product_choices_.empty() && !save_config.empty();
  if (beside) options.product_choices_path = UserPath(save_config) + ".products";
  ZS_RETURN_IF_ERROR(CheckWritable(beside ? "save_config" : kSave, options.product_choices_path));
  if (product_choices_.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> choices = trainer::ReadProductChoices(UserPath(product_choices_));
  if (!choices.ok()) {
    return absl::Status(choices.status().code(), absl::StrCat("--", kTake, ": ", choices.status().message()));
  }
  options.run.product_choices = *std::move(choices);
  return absl::OkStatus();
}

}  // namespace zeroshard::tools
