// The routes of the service, by the file that answers them.
#pragma once

#include "easydel/serve/openai/service.h"

namespace easydel::serve {

void add_chat_routes(Service& service);        // /v1/chat/completions
void add_completion_routes(Service& service);  // /v1/completions
void add_speech_routes(Service& service);      // /v1/audio/transcriptions, /v1/audio/translations
void add_model_routes(Service& service);       // /v1/models
void add_adapter_routes(Service& service);     // /v1/load_lora_adapter, /v1/unload_lora_adapter
void add_token_routes(Service& service);       // /tokenize, /detokenize
void add_status_routes(Service& service);      // /health, /version, /metrics, /dashboard/data
void add_page_routes(Service& service);        // /, /dashboard

}  // namespace easydel::serve
