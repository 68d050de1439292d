# The package against a real coordinator with the sites north and south. THEBES_URL and THEBES_TOKEN say where
# it listens; THEBES_FINGERPRINT is that of its key. Stops at the first thing that does not hold.
library(thebes)

coordinator <- thebes_connect(paste0(Sys.getenv("THEBES_URL"), "/"))
said <- function(expression, class) {
  told <- tryCatch({ expression; NULL }, error = function(error) error)
  if (!inherits(told, class)) stop("expected ", class, ", and got ", class(told)[1], ": ", conditionMessage(told))
  conditionMessage(told)
}

# what others wrote moves no cursor, and what is secret does not go unencrypted unsaid
evil <- "fine\u001b[2J\u202etxt\u009b31m\nnext"
shown <- function(value) paste(capture.output(print(value)), collapse = "\n")
release <- structure(list(told = list(value = NULL, explanation = evil, interval_note = evil,
  certificate = list(text = evil))), class = "thebes_release")
verdict <- data.frame(site = evil, allowed = NA, message = evil)
quote <- structure(list(epsilon = 1, delta = 0, unit = evil, verdicts = verdict), class = "thebes_quote")
task <- structure(list(coordinator = coordinator, task_id = evil), class = "thebes_task")
refused <- thebes:::refusal(403, jsonlite::toJSON(list(detail = evil), auto_unbox = TRUE), coordinator)
for (text in c(shown(release), shown(quote), shown(task), conditionMessage(refused))) {
  stopifnot(grepl("fine", text), !grepl("[\u0001-\u0009\u000b-\u001f\u007f-\u009f\u202e]", text, perl = TRUE))
}
warned <- function(expression) tryCatch({ expression; "" }, warning = function(told) conditionMessage(told))
stopifnot(grepl("the token travels unencrypted", warned(thebes_connect("http://192.0.2.1", token = "t"))))
abroad <- thebes_connect("http://thebes.invalid", token = "")
stopifnot(grepl("the password travels unencrypted", warned(thebes_login(abroad, "ana", "a long password"))))
for (url in c("https://192.0.2.1", "http://127.0.0.1:9", "http://[::1]:9", "http://localhost:9")) {
  stopifnot(warned(thebes_connect(url, token = "t")) == "")
}
for (url in c("http://127.0.0.1.thebes.invalid", "http://localhost:9@thebes.invalid")) {
  stopifnot(nzchar(warned(thebes_connect(url, token = "t"))))
}

# sites and quotes
sites <- thebes_sites(coordinator)
stopifnot(identical(sites$name, c("north", "south")), all(sites$state == "connected"), grepl("patients", sites$datasets))
count <- list(type = "query", dataset = "patients", statistic = "count", epsilon = 1)
quote <- thebes_quote(coordinator, count)
stopifnot(quote$epsilon == 1, quote$delta == 0, isTRUE(quote$allowed), quote$verdicts$site == c("north", "south"))
stopifnot(any(grepl("north: would answer", capture.output(print(quote)))))

# a number, and groups
release <- thebes_query(coordinator, "patients", "count", epsilon = 1, timeout = 120)
table <- as.data.frame(release)
stopifnot(nrow(table) == 1, table$low < table$value, table$value < table$high, table$level == 0.95)
certificate <- thebes_certificate(release)
stopifnot(certificate$epsilon == 1, certificate$trust == "site", nzchar(certificate$text))
stopifnot(any(grepl("epsilon 1", capture.output(print(release)))))
wards <- as.data.frame(thebes_query(coordinator, "patients", "mean", epsilon = 2, column = "age", by = "ward"))
stopifnot(nrow(wards) > 2, all(wards$low < wards$value & wards$value < wards$high), is.character(wards$key))
one <- thebes_query(coordinator, "patients", "mean", epsilon = 1, column = "age", sites = "north", timeout = 120)
stopifnot(identical(one$told$coverage$answered, list("north")))

# refusals in words
fault <- said(thebes_query(coordinator, "patients", "meen", epsilon = 1, column = "age"), "thebes_refusal")
stopifnot(grepl("^statistic: must be ", fault))
stopifnot(grepl("sql|data set|patient", said(thebes_query(coordinator, "nothing", "count", epsilon = 1), "thebes_refusal")))
stranger <- thebes_connect(coordinator$url, token = "wrong")
stopifnot(nzchar(said(thebes_submit(stranger, count), "thebes_refusal")))
stopifnot(nzchar(said(thebes_login(coordinator, "nobody", "a password that is none"), "thebes_refusal")))
stopifnot(grepl("check the address", said(thebes_sites(thebes_connect("http://127.0.0.1:9")), "thebes_unreachable")))
greedy <- list(type = "query", dataset = "patients", statistic = "count", epsilon = 10000)
stopifnot(grepl("nothing was released", said(thebes_ask(coordinator, greedy, timeout = 120), "thebes_refusal")))
waiting <- thebes_submit(coordinator, list(
  type = "basic", aggregator = "median", epsilon = 1, server = "trusted", min_count = 11,
  featurizer = "SELECT age FROM profile.demographics", bounds = list(age = list(type = "range", low = 0, high = 120))
))
stopifnot(grepl("wait again, or cancel it", said(thebes_wait(waiting, timeout = 0), "thebes_not_finished")))

# verified, and not
verified <- thebes_verify(release, key = Sys.getenv("THEBES_FINGERPRINT"))
stopifnot(verified$fingerprint == Sys.getenv("THEBES_FINGERPRINT"), verified$task_id == release$task$task_id)
stopifnot(any(grepl("by another way", capture.output(print(thebes_verify(release))))))
for (alone in c(FALSE, TRUE)) {
  file <- tempfile(fileext = ".json")
  thebes_save(release, file, certificate_only = alone)
  thebes_verify(file, key = verified$fingerprint)
  thebes_verify(file, coordinator = coordinator)
  stopifnot(grepl("nobody knows", said(thebes_verify(file), "thebes_not_verified")))
  stopifnot(grepl("another key", said(thebes_verify(file, key = strrep("0", 64)), "thebes_not_verified")))
  record <- readLines(file, warn = FALSE)
  changed <- function(from, to) { wrong <- tempfile(); writeLines(sub(from, to, record), wrong); wrong }
  forged <- changed('epsilon\\\\":1', 'epsilon\\\\":2')
  stopifnot(!identical(readLines(forged), record))
  stopifnot(grepl("does not fit", said(thebes_verify(forged, key = verified$fingerprint), "thebes_not_verified")))
  cut <- changed('"signature": *"....', '"signature":"AAAA')
  stopifnot(grepl("not signed by the key", said(thebes_verify(cut, key = verified$fingerprint), "thebes_not_verified")))
}
other <- release
other$told$value <- other$told$value + 1
stopifnot(grepl("another release", said(thebes_verify(other), "thebes_not_verified")))
if (nzchar(out <- Sys.getenv("THEBES_SAVE"))) thebes_save(release, out)
cat("all of it holds\n")
