"""How measurements of one lane are cut into batches."""
