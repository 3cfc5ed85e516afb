"""The playground: watch, touch and understand a denoising in the browser (`tokenloom play`)."""
