# The connection to a coordinator: one request at a time, and refusals as conditions of R.

#' Name a coordinator
#'
#' Nothing is sent until something is asked. `token` is a requestor's; without one the variable
#' THEBES_TOKEN counts, and reading what is public needs none.
thebes_connect <- function(url, token = Sys.getenv("THEBES_TOKEN")) {
  stopifnot(is.character(url), length(url) == 1)
  if (nzchar(token)) warn_unencrypted(url, "the token")
  structure(list(url = sub("/+$", "", url), token = token), class = "thebes_coordinator")
}

#' Sign in with a name and a password, for a quarter of an hour
thebes_login <- function(coordinator, username, password) {
  warn_unencrypted(coordinator$url, "the password")
  told <- request(coordinator, "/api/login", body = list(username = username, password = password))
  coordinator$token <- told$token
  coordinator
}

print.thebes_coordinator <- function(x, ...) {
  cat("<Thebes coordinator at ", plain(x$url), ">\n", sep = "")
  invisible(x)
}

# Over plain http everybody on the way reads what is sent, except within this machine.
warn_unencrypted <- function(url, secret) {
  authority <- sub("^[a-z]+://([^/?#]*).*$", "\\1", tolower(url))
  host <- sub(":[0-9]*$", "", authority)
  here <- host %in% c("localhost", "[::1]") || grepl("^127(\\.[0-9]{1,3}){3}$", host)
  if (!here && !grepl("^https://", url, ignore.case = TRUE)) {
    warning(secret, " travels unencrypted to ", plain(url), "; use https", call. = FALSE)
  }
}

# Text that others wrote, as it may be shown: a terminal would obey control characters, and hide or turn around
# what some others mark. Lines stay lines.
plain <- function(text) {
  unseen <- paste0(
    "[\u0001-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
  )
  gsub(unseen, "?", enc2utf8(as.character(text)), perl = TRUE)
}

# The answer to one request as text. A refusal is a condition of class `thebes_refusal`: its message
# says what happened and what to do, `status` is HTTP's, `problems` names the fields of a document.
request_text <- function(coordinator, path, body = NULL, query = list()) {
  made <- httr2::request(paste0(coordinator$url, path))
  made <- httr2::req_url_query(made, !!!query)
  made <- httr2::req_user_agent(made, "thebes-r/0.1.0")
  made <- httr2::req_timeout(made, 60)
  if (nzchar(coordinator$token)) {
    made <- httr2::req_headers(made, Authorization = paste("Bearer", coordinator$token), .redact = "Authorization")
  }
  if (!is.null(body)) {
    text <- jsonlite::toJSON(body, auto_unbox = TRUE, null = "null", digits = NA)
    made <- httr2::req_body_raw(made, charToRaw(enc2utf8(text)), type = "application/json")
  }
  made <- httr2::req_error(made, is_error = function(answer) FALSE)
  answer <- tryCatch(httr2::req_perform(made), error = function(error) unreachable(coordinator, error))
  text <- if (length(answer$body)) httr2::resp_body_string(answer, "UTF-8") else ""
  if (httr2::resp_status(answer) >= 400) stop(refusal(httr2::resp_status(answer), text, coordinator))
  text
}

request <- function(coordinator, path, body = NULL, query = list()) {
  read_json(request_text(coordinator, path, body, query), coordinator)
}

# Numbers keep all their digits, lists stay lists: what is one value and what are many is the kind's affair.
read_json <- function(text, coordinator) {
  force(text)  # here, so that a refusal is not taken for what cannot be read
  tryCatch(
    jsonlite::fromJSON(text, simplifyVector = FALSE),
    error = function(error) {
      message <- paste0(coordinator$url, ": what answers there is no Thebes coordinator; check the address")
      stop(condition(message, "thebes_unreachable"))
    }
  )
}

refusal <- function(status, text, coordinator) {
  told <- tryCatch(jsonlite::fromJSON(text, simplifyVector = FALSE), error = function(error) list())
  detail <- if (is.null(told$detail)) paste(coordinator$url, "answered", status) else told$detail
  faults <- vapply(told$problems, function(each) paste0(each$field, ": ", each$message), "")
  if (length(faults)) detail <- paste(faults, collapse = "; ")
  else if (!is.null(told$field)) detail <- paste0(told$field, ": ", detail)
  condition(detail, "thebes_refusal", status = status, error = told$error, problems = told$problems)
}

unreachable <- function(coordinator, error) {
  told <- conditionMessage(if (is.null(error$parent)) error else error$parent)
  stop(condition(paste0(coordinator$url, ": nothing answers there (", told, "); check the address"), "thebes_unreachable"))
}

condition <- function(message, class, ...) {
  structure(class = c(class, "thebes_error", "error", "condition"), list(message = plain(message), call = NULL, ...))
}
