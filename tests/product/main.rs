//! Tidemark as a product: what a newcomer meets, and the shape of the house.
mod architecture;
mod reasons;
