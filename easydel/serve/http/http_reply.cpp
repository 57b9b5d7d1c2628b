#include "easydel/serve/http/http_reply.h"

namespace easydel::serve {

void HttpReply::send(HttpResponse response) const { impl_->send(std::move(response)); }
void HttpReply::begin(HttpResponse head) const { impl_->begin(std::move(head)); }
bool HttpReply::write(std::string_view bytes) const { return impl_->write(bytes); }
void HttpReply::end() const { impl_->end(); }
bool HttpReply::is_open() const { return impl_->is_open(); }
void HttpReply::on_close(std::function<void()> callback) const { impl_->on_close(std::move(callback)); }

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

}  // namespace easydel::serve
