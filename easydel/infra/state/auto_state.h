// A state by the name of its model's files: what AutoModelForCausalLM and its kin are to models.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "easydel/infra/state/state.h"

namespace easydel {

bool is_saved_state(const std::filesystem::path& directory);  // by save_state

template <TaskType Task>
struct AutoStateFor {
  // A model's files give step 0; what save_state wrote gives its step and its optimizer state, which must be of tx's
  // form where `tx` is given. With `tx` a fresh optimizer state is made where the files have none.
  static State from_pretrained(const std::string& name_or_path, const LoadOptions& options = {},
                               optim::GradientTransformation tx = {}) {
    if (is_saved_state(name_or_path)) return State::load_state(name_or_path, options, std::move(tx), Task);
    return with_optimizer(AutoModelFor<Task>::from_pretrained(name_or_path, options)->to_state(), std::move(tx));
  }
  // Random weights.
  static State from_config(const BaseConfig& config, const ModuleOptions& options = {},
                           optim::GradientTransformation tx = {}) {
    return with_optimizer(AutoModelFor<Task>::from_config(config, options)->to_state(), std::move(tx));
  }

 private:
  static State with_optimizer(State state, optim::GradientTransformation tx) {
    return tx ? state.init_tx(std::move(tx)) : state;
  }
};

using AutoState = AutoStateFor<TaskType::BaseModule>;
using AutoStateForCausalLM = AutoStateFor<TaskType::CausalLM>;
using AutoStateForSequenceClassification = AutoStateFor<TaskType::SequenceClassification>;
using AutoStateForSeq2SeqLM = AutoStateFor<TaskType::SequenceToSequence>;
using AutoStateForSpeechSeq2Seq = AutoStateFor<TaskType::SpeechSequenceToSequence>;
using AutoStateForMaskedLM = AutoStateFor<TaskType::MaskedLM>;
using AutoStateForTokenClassification = AutoStateFor<TaskType::TokenClassification>;
using AutoStateForQuestionAnswering = AutoStateFor<TaskType::QuestionAnswering>;
using AutoStateForEmbedding = AutoStateFor<TaskType::Embedding>;
using AutoStateVisionModel = AutoStateFor<TaskType::VisionModule>;
using AutoStateForImageClassification = AutoStateFor<TaskType::ImageClassification>;
using AutoStateForZeroShotImageClassification = AutoStateFor<TaskType::ZeroShotImageClassification>;
using AutoStateForImageTextToText = AutoStateFor<TaskType::ImageTextToText>;
using AutoStateForAudioClassification = AutoStateFor<TaskType::AudioClassification>;
using AutoStateForAnyTask = AutoStateFor<TaskType::AutoBind>;

}  // namespace easydel
